// The states of threads as streams show them: one port, whoever keeps the states.
import type { StatePort } from '../agent/states.ts'
import { wellFormedJson } from '../base/well-formed.ts'

export interface ShownStates {
  /** JSON of a state, with open questions; `checkpointId` null: the thread's newest. null: there is none. */
  shown(threadId: string, checkpointId: string | null): Promise<string | null>
}

/** The states of graphs, which render them. */
export function shownBy(states: Pick<StatePort, 'values'>): ShownStates {
  return {
    async shown(threadId, checkpointId) {
      const values = await states.values(threadId, checkpointId)
      return values && wellFormedJson(values.json)
    }
  }
}
