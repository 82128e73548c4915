// A graph behind the agent's port: it is given what it lacks of our state, works, and what it tells becomes the run.
import type { AgentInput, ListedAgent, Sink } from '../runtime.ts'
import type { Graph } from './graph.ts'
import { MARK, readMark } from './mark.ts'
import { orderFor } from './order.ts'
import { Translation } from './translation.ts'

export function createGraphAgent(graph: Graph): ListedAgent {
  return {
    async start(input, sink, signal) {
      try {
        await work(graph, input, sink, signal)
      } catch (error) {
        // What fails because it was told to stop is no failure.
        if (!signal.aborted) throw error
      }
    },
    // Which models a graph asks is its own affair: a run's model_name is passed on, whatever it is.
    models: () => [],
    forget: (threadId) => graph.forget(threadId)
  }
}

async function work(graph: Graph, input: AgentInput, sink: Sink, signal: AbortSignal): Promise<void> {
  const mark = readMark(input.channels[MARK])
  const thread = await graph.open(input, mark, signal)
  const order = await orderFor(input, mark, thread)
  const translation = new Translation(input, mark, thread.id, sink)
  await thread.work(
    order,
    (part) => translation.hear(part),
    () => sink.space()
  )
  translation.finish(await thread.state(null), await thread.pack())
}
