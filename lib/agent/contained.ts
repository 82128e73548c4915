// Contains a foreign agent: whatever it does wrong with its sink, at any time, only fails its own run.
import type { Agent, ListedAgent, Sink } from './runtime.ts'

/** The same agent. Invalid output fails its run, even where nobody could catch the error, as in a timer. */
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
    ...(agent.models && { models: () => agent.models?.() ?? [] }),
    ...(agent.adoptThreads && { adoptThreads: agent.adoptThreads.bind(agent) }),
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
    flushed: () => sink.flushed()
  }
}
