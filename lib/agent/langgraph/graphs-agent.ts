// Graphs of this process behind the agent's port: runs call them, and the states of threads are theirs.
import type { ListedAgent } from '../runtime.ts'
import { runGraph } from './graph-run.ts'
import type { GraphSet } from './graph-set.ts'
import { GraphStates, type GraphThreads } from './graph-states.ts'
import type { GraphReads } from './saver.ts'

/** What graphs need of the service: where their states are, and which thread is with which graph. */
export interface GraphPorts {
  readonly reads: GraphReads
  readonly threads: GraphThreads
}

export function createGraphsAgent(set: GraphSet, { reads, threads }: GraphPorts): ListedAgent {
  return {
    start: (input, sink, signal) => runGraph(set, reads, input, sink, signal),
    // Which models a graph asks is its own affair: a run's model_name is passed on, whatever it is.
    models: () => [],
    states: new GraphStates(set, reads, threads)
  }
}
