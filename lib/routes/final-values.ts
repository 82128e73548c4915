// What a run has answered: the values of its last state, and what only its stream had.
import type { StatePort } from '../agent/states.ts'
import type { RunReaders } from '../run/lifecycle/run-readers.ts'
import { framesFrom } from '../run/log/oversized-reader.ts'
import { isShownState } from '../run/log/rebuild-partial.ts'
import type { RunLog } from '../run/log/run-log.ts'
import type { RawFrame } from '../run/log/segment.ts'
import { dataOf, Kind } from '../run/log/frame.ts'
import type { JsonObject, Run } from '../base/types.ts'

/** So many frames may follow it. */
const LOOK_BACK = 100

/** @returns JSON; null: it has none */
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
