// Runs as clients see them: the one that a path names, its view, its final values.
import { fail } from '../base/errors.ts'
import { type JsonObject, NO_TOTALS, type Run } from '../base/types.ts'
import type { Call } from '../http/route.ts'
import type { Services } from './services.ts'
import type { StatePort } from '../agent/states.ts'
import type { RunReaders } from '../run/lifecycle/run-readers.ts'
import { framesFrom } from '../run/log/oversized-reader.ts'
import { isShownState } from '../run/log/rebuild-partial.ts'
import type { RunLog } from '../run/log/run-log.ts'
import type { RawFrame } from '../run/log/segment.ts'
import { dataOf, Kind } from '../run/log/frame.ts'

/** A run as sent to clients. */
export function runView(run: Run): JsonObject {
  const {
    key: _,
    user_id,
    idempotency_key,
    idempotency_hash,
    last_cursor,
    final_checkpoint_id,
    first_human_message,
    last_ai_message,
    ordinal,
    attempts,
    model_name,
    ...shown
  } = run
  return { ...shown, kwargs: { input: run.kwargs.input ?? null, config: run.kwargs.config ?? null } }
}

/** What becomes of a run later. */
const JUST_CREATED = { status: 'pending', error: null, stop_reason: null, ...NO_TOTALS }

/** The run as it was created, with its fields in one order: however often its creation is repeated, the answer is the same [needs N24]. */
export function createdView(run: Run): JsonObject {
  const view = { ...runView(run), ...JUST_CREATED, updated_at: run.created_at }
  return Object.fromEntries(Object.entries(view).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The run that a path names. @throws Failure run_not_found, also for a run of another thread than the path's */
export async function runOf({ store }: Pick<Services, 'store'>, { params }: Pick<Call, 'params'>): Promise<Run> {
  const { thread_id: threadId, run_id: id } = params
  const run = await store.runs.get(id!)
  if (!run || (threadId !== undefined && run.thread_id !== threadId)) throw fail('run_not_found', { id: id! })
  return run
}

/** So many frames may follow it. */
const LOOK_BACK = 100

/** The values of its last state, and what only its stream had. @returns JSON; null: it has none */
export async function finalValuesOf(
  run: Run,
  states: Pick<StatePort, 'values'>,
  readers: Pick<RunReaders, 'logOf'>
): Promise<string | null> {
  const final = await states.values(run.thread_id, run.final_checkpoint_id)
  if (!final?.isPartial) return final?.json ?? null
  const shown = await lastStateIn(await readers.logOf(run))
  // Both are states, written as JSON by us.
  const members = (json: string) => JSON.parse(json) as JsonObject
  return shown === null ? final.json : JSON.stringify({ ...members(shown), ...members(final.json) })
}

/** The state a run has shown last, which may have what no checkpoint keeps, as JSON; null: it is further back, or its frames are gone. */
async function lastStateIn(log: RunLog): Promise<string | null> {
  let last: RawFrame | null = null
  for await (const frame of framesFrom(log, Math.max(0, log.head - LOOK_BACK))) if (isShownState(frame)) last = frame
  if (last === null) return null
  return last.kind === Kind.state ? dataOf(last.bytes) : ((await log.valuesOf(last))?.json ?? null)
}
