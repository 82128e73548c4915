// Every write by name, as a batch runs it.
import type { Op, OpName } from '../store.ts'
import { SQL_WRITES } from '../sql/nouns.ts'
import type { Batch } from './batch.ts'
import { checkpointWrites } from './checkpoints.ts'
import { eventWrites } from './events.ts'
import { frameWrites } from './frames.ts'
import type { AnyWriter, Writers } from './rows.ts'
import { runWrites } from './runs.ts'
import { stepWriters } from './steps.ts'
import { threadWrites } from './threads.ts'

const WRITES: Writers<OpName> = {
  // Nothing to do: every batch writes its number anyway, see writer.ts.
  'store.ping': async () => null,
  ...stepWriters(SQL_WRITES),
  ...threadWrites,
  ...runWrites,
  ...eventWrites,
  ...frameWrites,
  ...checkpointWrites
}

/** Writes one op; its result holds once the batch is committed. */
export function write(op: Op, batch: Batch): Promise<unknown> {
  // The table has for each name a function of that op; the compiler cannot follow name and op through one lookup.
  const writer = WRITES[op.name] as AnyWriter
  return writer(op, batch)
}
