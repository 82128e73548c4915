// In-process graphs behind the agent port: runs call them, and they keep their threads' states.
import type { ListedAgent } from '../runtime.ts'
import type { GraphPorts } from './graph-ports.ts'
import { runGraph } from './graph-run.ts'
import type { GraphSet } from './graph-set.ts'
import { GraphStates } from './graph-states.ts'
import { LoopWatch } from './loop-watch.ts'

export function createGraphsAgent(set: GraphSet, ports: GraphPorts): ListedAgent {
  const { reads, threads, log } = ports
  const watch = new LoopWatch((graphs, blocked_ms) =>
    log.warn(
      { graphs, blocked_ms },
      'a graph blocked the event loop: set graphs.isolation to worker, or move long computations to a worker'
    )
  )
  return {
    start: (input, sink, signal) => watch.during(input.graphId ?? '', () => runGraph(set, ports, input, sink, signal)),
    // A graph chooses its models: a run's model_name is passed on as it is.
    models: () => [],
    states: new GraphStates(set, reads, threads)
  }
}
