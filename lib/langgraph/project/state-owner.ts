// Whose a stored state is. A Python project's serializer imports classes by name, so what it has written is given to nobody else.
import { AgentFileError } from '../../agent/agent-file.ts'
import { AgentError } from '../../agent/runtime.ts'
import type { StatePort } from '../../agent/states.ts'
import { parseJson } from '../../base/json.ts'
import { fail } from '../../base/errors.ts'
import { isObject } from '../../base/types.ts'
import type { StoredGraphCheckpoint } from '../../conversation/state.ts'

/** The member of a stored checkpoint that names its project; LangGraph keeps nothing it does not know. */
const OWNER = '__project'
const OTHER = 'StateOfAnotherProject'
/** Errors of a process that cannot be asked. */
export const LOST = 'GraphProcessLost'

/** The text of a checkpoint, with its owner. */
export function owned(checkpoint: string, project: string): string {
  return `{${JSON.stringify(OWNER)}:${JSON.stringify(project)},${checkpoint.slice(1)}`
}

/** The project that has written a state; null: a JavaScript graph. */
export function ownerOf({ checkpoint }: Pick<StoredGraphCheckpoint, 'checkpoint'>): string | null {
  const head = parseJson(checkpoint)
  return isObject(head) && typeof head[OWNER] === 'string' ? head[OWNER] : null
}

/**
 * @param project null: JavaScript's, whose states name none
 * @throws AgentError
 */
export function checkOwner(stored: StoredGraphCheckpoint, project: string | null): void {
  const owner = ownerOf(stored)
  if (owner === project) return
  const [its, ours] = [owner, project].map((one) => (one === null ? 'a JavaScript graph' : `the project ${one}`))
  throw new AgentError(
    OTHER,
    `The state of thread ${stored.thread_id} was written by ${its}, and is not given to ${ours}`
  )
}

/** States whose refusals are answers of our API: of another project, 409; where the graphs cannot be asked, 503. */
export function withRefusals(states: StatePort): StatePort {
  const refusing =
    <Args extends unknown[], T>(work: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      try {
        return await work.apply(states, args)
      } catch (error) {
        throw refusalOf(error)
      }
    }
  return {
    isOfGraphs: states.isOfGraphs,
    has: refusing(states.has),
    get: refusing(states.get),
    // Shown in lists, in which the threads of others stand too.
    values: (...args) =>
      states.values(...args).catch((error: unknown) => (isRefusal(error) ? null : Promise.reject(error))),
    history: refusing(states.history),
    update: refusing(states.update),
    build: refusing(states.build),
    copy: refusing(states.copy),
    graphs: () => states.graphs(),
    schemas: refusing(states.schemas),
    draw: refusing(states.draw),
    subgraphs: refusing(states.subgraphs)
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof AgentFileError || (error instanceof AgentError && [OTHER, LOST].includes(error.kind))
}

function refusalOf(error: unknown): unknown {
  if (!isRefusal(error) || !(error instanceof Error)) return error
  const isOther = error instanceof AgentError && error.kind === OTHER
  return fail(isOther ? 'state_of_other_project' : 'graphs_unavailable', { reason: error.message })
}
