// What a run has answered: the values of its last state, and what only its stream had.
import type { StatePort } from '../agent/states.ts'
import type { RunReaders } from '../run/lifecycle/run-readers.ts'
import { lastStateIn } from '../run/log/last-state.ts'
import type { JsonObject, Run } from '../types.ts'

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
