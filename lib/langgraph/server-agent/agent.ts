// Graphs on a LangGraph server behind the agent port: each run is one run there, whose stream is mapped to ours.
import type { MessageLimits } from '../../conversation/chunk.ts'
import type { AgentInput, ListedAgent, Sink } from '../../agent/runtime.ts'
import { REF_CHANNEL, readRef } from './checkpoint-ref.ts'
import { GraphEventMapper } from './event-mapper.ts'
import { graphInputFor } from './input.ts'
import type { ServerOptions } from './requests.ts'
import { ServerGraph } from './server.ts'

/** @param options their message limits hold for each message of an answer */
export function createServerAgent(options: ServerOptions & MessageLimits): ListedAgent {
  const graph = new ServerGraph(options)
  return {
    async start(input, sink, signal) {
      try {
        await work(graph, input, sink, signal, options)
      } catch (error) {
        // Failing because of the abort is no failure.
        if (!signal.aborted) throw error
      }
    },
    // A graph chooses its models: a run's model_name is passed on as it is.
    models: () => [],
    graphs: graph.graphs,
    forget: (threadId) => graph.forget(threadId),
    abandon: (threadId, runId) => graph.abandon(threadId, runId),
    adoptThreads: graph.adoptThreads.bind(graph)
  }
}

async function work(
  graph: ServerGraph,
  input: AgentInput,
  sink: Sink,
  signal: AbortSignal,
  limits: MessageLimits
): Promise<void> {
  const ref = readRef(input.channels[REF_CHANNEL])
  const thread = await graph.open(input, ref, signal)
  const graphInput = await graphInputFor(input, ref, thread)
  const mapper = new GraphEventMapper(input, ref, thread.id, sink, limits)
  await thread.work(
    graphInput,
    (part) => mapper.part(part),
    () => sink.space()
  )
  mapper.finish(await thread.state(null))
}
