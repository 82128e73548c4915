// Graphs on a LangGraph server behind the agent port: each run is one run there, whose stream is mapped to ours. A run whose process is
// gone goes on there: the next attempt reads its stream again, and records what comes behind what is stored.
import type { MessageLimits } from '../../conversation/chunk.ts'
import {
  type AgentInput,
  type EarlierAttempts,
  type ListedAgent,
  RunCut,
  type Sink,
  type AgentRecord,
  type StreamPart
} from '../../agent/runtime.ts'
import { REF_CHANNEL, readRef } from './checkpoint-ref.ts'
import { GraphEventMapper } from './event-mapper.ts'
import type { Part } from './graph.ts'
import { graphInputFor } from './input.ts'
import { FROM_START, offsetJson, readOffset, type StreamOffset, UNKNOWN } from './offset.ts'
import type { ServerOptions } from './requests.ts'
import { ServerGraph } from './server.ts'

interface ServerAgentOptions extends ServerOptions, MessageLimits {
  /** Runs of a process that is gone are followed; otherwise they are cancelled on the server. */
  readonly rejoins?: boolean
}

/** @param options their message limits hold for each message of an answer */
export function createServerAgent(options: ServerAgentOptions): ListedAgent {
  const graph = new ServerGraph(options)
  const working = new Set<AbortController>()
  return {
    async start(input, sink, signal) {
      const leaving = new AbortController()
      working.add(leaving)
      try {
        await new ServerRun(graph, input, sink, options).work({ signal, leave: leaving.signal })
      } catch (error) {
        // Failing because of the abort is no failure.
        if (signal.aborted) return
        throw leaving.signal.aborted ? leaving.signal.reason : error
      } finally {
        working.delete(leaving)
      }
    },
    ...(options.rejoins === true && {
      canRejoin: true,
      drain: () => {
        for (const leaving of working) leaving.abort(new RunCut('drain', 'AgentInterrupted', 'The gateway was stopped'))
      }
    }),
    // A graph chooses its models: a run's model_name is passed on as it is.
    models: () => [],
    graphs: graph.graphs,
    showsDetails: true,
    statesOver: (kept) => graph.statesOver(kept),
    forget: (threadId) => graph.forget(threadId),
    abandon: (threadId, runId) => graph.abandon(threadId, runId),
    adoptThreads: graph.adoptThreads.bind(graph)
  }
}

/** What ends the work: `leave` without its run. */
interface Signals {
  readonly signal: AbortSignal
  readonly leave: AbortSignal
}

class ServerRun {
  readonly #graph: ServerGraph
  readonly #input: AgentInput
  readonly #sink: Sink
  readonly #limits: MessageLimits
  /** null: there is no run on the server yet. */
  #offset: StreamOffset | null = null

  constructor(graph: ServerGraph, input: AgentInput, sink: Sink, limits: MessageLimits) {
    this.#graph = graph
    this.#input = input
    this.#sink = sink
    this.#limits = limits
  }

  work(signals: Signals): Promise<void> {
    return this.#input.earlier ? this.#rejoin(this.#input.earlier, signals) : this.#begin(signals)
  }

  async #begin({ signal, leave }: Signals): Promise<void> {
    const ref = readRef(this.#input.channels[REF_CHANNEL])
    const thread = await this.#graph.open(this.#input, ref, signal, leave)
    const graphInput = await graphInputFor(this.#input, ref, thread)
    const mapper = new GraphEventMapper(this.#input, ref, thread.id, this.#sink, this.#limits)
    await thread.work(graphInput, {
      onRun: (runId) => this.#reached({ threadId: thread.id, runId, eventId: FROM_START }),
      onPart: (part) => this.#onPart(mapper, part),
      space: () => this.#sink.space()
    })
    mapper.finish(await thread.state(null))
    this.#reachedEnd()
  }

  /** @throws RunCut `end`: it does not go on there */
  async #rejoin(earlier: EarlierAttempts, { signal, leave }: Signals): Promise<void> {
    const { threadId, runId } = this.#input
    const offset = readOffset(earlier.offset) ?? (await this.#graph.runOf(threadId, runId, signal))
    if (offset?.isOver) return
    if (!offset) throw endOf('The server knows nothing of the run')
    const ref = readRef(this.#input.channels[REF_CHANNEL])
    const thread = this.#graph.reopen(offset.threadId, signal, leave)
    // What was read without positions cannot be told from what was not.
    if (offset.eventId === UNKNOWN) {
      await thread.cancel(offset.runId)
      throw endOf("The server's stream has no positions")
    }
    this.#offset = offset
    const replay = new Replay(this.#sink, offset.eventId)
    const mapper = new GraphEventMapper(this.#input, ref, thread.id, replay, this.#limits)
    if (!replay.isMuted) mapper.resumeAfter(earlier)
    const isKnown = await thread.rejoin(offset.runId, {
      onPart: (part) => {
        if (!replay.isMuted) return this.#onPart(mapper, part)
        mapper.part(part)
        if (replay.isAt(part)) mapper.resumeAfter(earlier)
        return true
      },
      space: () => this.#sink.space()
    })
    if (!isKnown || replay.isMuted) throw endOf('The server does not have the stream of the run any more')
    mapper.finish(await thread.state(null))
    this.#reachedEnd()
  }

  #onPart(mapper: GraphEventMapper, part: Part): boolean {
    const hasSpace = mapper.part(part)
    // Some servers give no position to the first event, which says nothing of the answer.
    const isCounted = part.id !== null || part.mode !== 'metadata'
    if (this.#offset && isCounted) this.#reached({ ...this.#offset, eventId: part.id ?? UNKNOWN })
    return hasSpace
  }

  #reachedEnd(): void {
    if (this.#offset) this.#reached({ ...this.#offset, isOver: true })
  }

  #reached(offset: StreamOffset): void {
    this.#offset = offset
    this.#sink.reached(offsetJson(offset))
  }
}

function endOf(message: string): RunCut {
  return new RunCut('end', 'AgentInterrupted', message)
}

/** The sink of a run whose stream is read again from its start: what an earlier attempt has recorded is dropped, the rest goes on. */
class Replay implements Pick<Sink, 'emit' | 'record'> {
  readonly #sink: Sink
  readonly #last: string
  /** The last recorded event has not come yet. */
  isMuted: boolean

  /** @param last id of the last event that is recorded */
  constructor(sink: Sink, last: string) {
    this.#sink = sink
    this.#last = last
    this.isMuted = last !== FROM_START
  }

  /** Takes note of an event that was read. @returns whether it is the last recorded one */
  isAt({ id }: Part): boolean {
    if (id !== this.#last) return false
    this.isMuted = false
    return true
  }

  emit(part: StreamPart): boolean {
    return this.isMuted || this.#sink.emit(part)
  }

  record(record: AgentRecord): boolean {
    return this.isMuted || this.#sink.record(record)
  }
}
