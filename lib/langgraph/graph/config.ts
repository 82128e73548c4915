// The configuration a graph is called with: what the caller may set, and the run's user.
import { withoutReserved } from '../../base/reserved.ts'
import type { JsonObject } from '../../base/types.ts'
import type { AgentInput } from '../../agent/runtime.ts'

/** Reserved keys: a caller's value would point to other threads. */
const OWN = ['thread_id', 'run_id', 'graph_id', 'assistant_id']

/** A graph's config: the caller's, and the run's user last, so that it wins [Auth 13]. */
export function passedOn({ context, modelName, userId }: AgentInput): JsonObject {
  const passed = Object.entries(withoutReserved(context)).filter(([name]) => !OWN.includes(name))
  return { ...Object.fromEntries(passed), ...stampOf({ modelName, userId }) }
}

/** The run's user [Auth 13], and the chosen model. */
export function stampOf({ modelName, userId }: Pick<AgentInput, 'modelName' | 'userId'>): JsonObject {
  return {
    ...(modelName !== null && { model_name: modelName }),
    ...(userId !== null && {
      user_id: userId,
      langgraph_auth_user_id: userId,
      langgraph_auth_user: { identity: userId }
    })
  }
}
