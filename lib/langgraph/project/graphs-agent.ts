// In-process graphs behind the agent port: runs call them, and they keep their threads' states.
import type { ListedAgent } from '../../agent/runtime.ts'
import type { GraphPorts } from './graph-ports.ts'
import { runGraph } from './graph-run.ts'
import type { GraphSet } from './graph-set.ts'
import { GraphStates } from './graph-states.ts'
import type { StatePort } from '../../agent/states.ts'

/** An agent that keeps its threads' states itself. */
export type GraphsAgent = ListedAgent & { readonly states: StatePort }

export function createGraphsAgent(set: GraphSet, ports: GraphPorts): GraphsAgent {
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

/** Check interval, in ms. */
const LOOK_MS = 200
/** Ticks longer than this are reported, in ms. */
const BLOCKED_MS = 1000

class LoopWatch {
  readonly #onBlocked: (graphs: string[], blockedMs: number) => void
  /** Active runs by graph. */
  readonly #working = new Map<string, number>()
  #timer: NodeJS.Timeout | null = null
  #looked = 0

  /** @param onBlocked called with the graphs active while the loop was blocked */
  constructor(onBlocked: (graphs: string[], blockedMs: number) => void) {
    this.#onBlocked = onBlocked
  }

  async during(graph: string, work: () => Promise<void>): Promise<void> {
    this.#count(graph, 1)
    try {
      await work()
    } finally {
      this.#count(graph, -1)
    }
  }

  #count(graph: string, more: number): void {
    const count = (this.#working.get(graph) ?? 0) + more
    if (count > 0) this.#working.set(graph, count)
    else {
      // This graph may just have blocked the loop.
      this.#look()
      this.#working.delete(graph)
    }
    if (this.#working.size === 0 && this.#timer) {
      clearInterval(this.#timer)
      this.#timer = null
    } else if (this.#working.size > 0 && !this.#timer) {
      this.#looked = performance.now()
      this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
    }
  }

  #look(): void {
    const blocked = performance.now() - this.#looked - LOOK_MS
    this.#looked = performance.now()
    if (blocked >= BLOCKED_MS) this.#onBlocked([...this.#working.keys()], Math.round(blocked))
  }
}
