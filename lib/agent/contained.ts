// An agent of somebody else's, contained: whatever it does wrong with its sink, and whenever, fails its own run and nothing else.
import type { Agent, ListedAgent, Sink } from './runtime.ts'

/** The same agent. What is wrong with what it hands over is its run's failure, also where nobody could catch it: in a timer. */
export function contained(agent: ListedAgent): ListedAgent
export function contained(agent: Agent): Agent
export function contained(agent: Agent): Agent {
  return {
    start: (input, sink, signal) =>
      new Promise((resolve, reject) => {
        // async: one that throws before its first await has failed its run as well.
        const work = async () => agent.start(input, failingOver(sink, reject), signal)
        work().then(() => resolve(), reject)
      }),
    ...(agent.models && { models: () => agent.models?.() ?? [] }),
    ...(agent.adoptThreads && { adoptThreads: agent.adoptThreads.bind(agent) }),
    ...(agent.forget && { forget: async (threadId: string) => agent.forget?.(threadId) })
  }
}

/** The sink, which tells its errors to `fail` and answers false. */
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
