// Every write of the process, by name: what a batch can do.
import type { Op, OpName } from '../store.ts'
import { graphWrites } from '../sql/graph-states.ts'
import { assistantWrites } from '../sql/assistants.ts'
import { apiTokenWrites } from '../sql/api-tokens.ts'
import { ttlWrites } from '../sql/ttls.ts'
import { runRemoval } from '../sql/run-removal.ts'
import type { Batch } from './batch.ts'
import { checkpointWrites } from './checkpoints.ts'
import { eventWrites } from './events.ts'
import { feedbackWrites } from '../sql/feedback.ts'
import { frameWrites } from './frames.ts'
import { cronWrites } from '../sql/crons.ts'
import { itemWrites } from '../sql/items.ts'
import { webhookWrites } from '../sql/webhooks.ts'
import type { AnyWriter, Writers } from './rows.ts'
import { runWrites } from './runs.ts'
import { stepWriters } from './steps.ts'
import { threadWrites } from './threads.ts'
import { userWrites } from '../sql/users.ts'

const WRITES: Writers<OpName> = {
  // Every batch writes its number, see writer.ts.
  'store.ping': async () => null,
  ...stepWriters(userWrites),
  ...stepWriters(apiTokenWrites),
  ...stepWriters(assistantWrites),
  ...stepWriters(runRemoval),
  ...stepWriters(ttlWrites),
  ...stepWriters(graphWrites),
  ...threadWrites,
  ...runWrites,
  ...eventWrites,
  ...frameWrites,
  ...checkpointWrites,
  ...stepWriters(itemWrites),
  ...stepWriters(cronWrites),
  ...stepWriters(webhookWrites),
  ...stepWriters(feedbackWrites)
}

/** Writes one op and answers its result, which holds when the batch is committed. */
export function write(op: Op, batch: Batch): Promise<unknown> {
  // The table has for each name a function of that op; the compiler cannot follow name and op through one lookup.
  const writer = WRITES[op.name] as AnyWriter
  return writer(op, batch)
}
