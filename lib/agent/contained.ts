// Isolates an agent from the operator's file: whatever it does wrong with its sink fails only its own run.
import type { Agent, ListedAgent, Sink } from './runtime.ts'

/** Wraps an agent: invalid output fails its run, even from a timer, where nobody could catch the error. */
export function contained(agent: ListedAgent): ListedAgent
export function contained(agent: Agent): Agent
export function contained(agent: Agent): Agent {
  return {
    start: (input, sink, signal) =>
      new Promise((resolve, reject) => {
        // async, so that an agent that throws synchronously fails its run as well.
        const work = async () => agent.start(input, failingOver(sink, reject), signal)
        work().then(() => resolve(), reject)
      }),
    ...(agent.takesInput && { takesInput: true }),
    ...(agent.canRejoin && { canRejoin: true }),
    ...(agent.canResume && { canResume: true }),
    ...(agent.drain && { drain: () => agent.drain?.() }),
    ...(agent.takesClientContext && { takesClientContext: true }),
    ...(agent.models && { models: () => agent.models?.() ?? [] }),
    ...(agent.adoptThreads && { adoptThreads: agent.adoptThreads.bind(agent) }),
    ...(agent.abandon && { abandon: agent.abandon.bind(agent) }),
    ...(agent.forget && { forget: async (threadId: string) => agent.forget?.(threadId) })
  }
}

/** The sink; errors go to `fail`, and the call returns false. */
function failingOver(sink: Sink, fail: (error: unknown) => void): Sink {
  const tried = (tell: () => boolean): boolean => {
    try {
      return tell()
    } catch (error) {
      fail(error)
      return false
    }
  }
  return {
    emit: (part) => tried(() => sink.emit(part)),
    record: (record) => tried(() => sink.record(record)),
    space: () => sink.space(),
    keep: (write) => sink.keep(write),
    flushed: () => sink.flushed(),
    reached: (offset) => sink.reached(offset)
  }
}
