// A graph behind the agent port: it is brought up to our state, runs, and its output becomes the run's.
import type { MessageLimits } from '../../conversation/chunk.ts'
import type { AgentInput, ListedAgent, Sink } from '../runtime.ts'
import type { Graph } from './graph.ts'
import { REF_CHANNEL, readRef } from './checkpoint-ref.ts'
import { graphInputFor } from './graph-input.ts'
import { GraphEventMapper } from './event-mapper.ts'

/** @param limits of each of its messages */
export function createGraphAgent(graph: Graph, limits?: MessageLimits): ListedAgent {
  return {
    async start(input, sink, signal) {
      try {
        await work(graph, input, sink, signal, limits)
      } catch (error) {
        // Failing because of the abort is no failure.
        if (!signal.aborted) throw error
      }
    },
    // A graph chooses its models: a run's model_name is passed on as it is.
    models: () => [],
    forget: (threadId) => graph.forget(threadId),
    ...(graph.adoptThreads && { adoptThreads: graph.adoptThreads.bind(graph) })
  }
}

async function work(
  graph: Graph,
  input: AgentInput,
  sink: Sink,
  signal: AbortSignal,
  limits?: MessageLimits
): Promise<void> {
  const ref = readRef(input.channels[REF_CHANNEL])
  const thread = await graph.open(input, ref, signal)
  const graphInput = await graphInputFor(input, ref, thread)
  const mapper = new GraphEventMapper(input, ref, thread.id, sink, limits)
  await thread.work(
    graphInput,
    (part) => mapper.hear(part),
    () => sink.space()
  )
  mapper.finish(await thread.state(null))
}
