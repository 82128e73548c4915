// Thread states of in-process graphs: LangGraph's snapshots under the field names of our API.
import { setTimeout as pause } from 'node:timers/promises'
import { messageOf } from '../../base/errors.ts'
import { backoffMs } from '../../base/waiting.ts'
import { KeyedMutex } from '../../base/keyed-mutex.ts'
import { type Json, type JsonObject, isObject } from '../../base/types.ts'
import { objectOr, objectsIn, textOr } from '../../base/json.ts'
import { doneIn } from '../../conversation/interrupts.ts'
import { type CheckpointFields, checkpointView, NEVER_RUN, type TaskFields } from '../../conversation/checkpoint.ts'
import type {
  GraphInfo,
  HistoryQuery,
  StateChange,
  StateChanged,
  StatePlace,
  StatePort,
  StateUpdate,
  StateValues
} from '../../agent/states.ts'
import { AgentError } from '../../agent/runtime.ts'
import type { GraphThreads, VersionedReads } from './graph-ports.ts'
import { checkpointIn, knownPlaceIn, taskPlace } from './chunk-view.ts'
import { commandOf } from './graph-run.ts'
import { GraphSchemas, inServersWords } from './graph-schemas.ts'
import type { ReadableGraph } from './gone-graph.ts'
import type { Access, GraphSet, LoadedGraph } from './graph-set.ts'
import type { CompiledGraph, StateSnapshot } from './library.ts'
import { plain } from './plain.ts'
import { UpdateSession } from './saver-session.ts'

const NOWHERE: StatePlace = { checkpointId: null, namespace: '' }

/** How often an update is made anew because another process was faster. */
const ATTEMPTS = 8
/** Longest pause between attempts, in ms. */
const PAUSE_MS_MAX = 2000

/** What an update is of, whatever it writes. */
interface Written {
  /** Of a thread that has no graph yet. */
  readonly graphId: string | null
  readonly title: string | null
  readonly place: StatePlace
}

/** Runs the graph for an update, in its session. */
type UpdateWork = (graph: CompiledGraph, loaded: LoadedGraph, config: JsonObject) => Promise<void>

export class GraphStates implements StatePort {
  readonly isOfGraphs = true
  readonly #set: GraphSet
  readonly #reads: VersionedReads
  readonly #threads: GraphThreads
  readonly #schemas = new GraphSchemas()
  /** Updates of a thread come one after the other: a conflict is only with another process. */
  readonly #updates = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1 })

  constructor(set: GraphSet, reads: VersionedReads, threads: GraphThreads) {
    this.#set = set
    this.#reads = reads
    this.#threads = threads
  }

  async has(threadId: string, checkpointId: string, namespace = ''): Promise<boolean> {
    return (await this.#reads.list(threadId, { ns: null, limit: 1 })).length > 0
      ? (await this.#reads.load(threadId, namespace, checkpointId)) !== null
      : false
  }

  async get(threadId: string, place: StatePlace, withSubgraphs = false, isBare = false): Promise<string | null> {
    const snapshot = await this.#snapshot(threadId, place, withSubgraphs)
    if (snapshot === undefined) return null
    const isMissing = place.checkpointId !== null && !snapshot?.createdAt
    return isMissing ? null : JSON.stringify(stateView(snapshot, isBare))
  }

  async values(threadId: string, checkpointId: string | null): Promise<StateValues | null> {
    const graph = await this.#graphFor(threadId, 'threads.read')
    if (!graph) return null
    const snapshot = await using(graph, () => snapshotAt(graph, threadId, checkpointId))
    if (!snapshot.createdAt) return null
    const { values, tasks } = stateView({ ...snapshot, tasks: await this.#waiting(threadId, snapshot) })
    const asked = objectsIn(tasks).map((task): [string, Json] => [String(task.id), task.interrupts ?? []])
    // Final values include the open interrupts, as the last `values` frame does.
    const waiting = checkpointId === null ? [] : asked.flatMap(([, list]) => objectsIn(list))
    const shown = waiting.length > 0 && isObject(values) ? { ...values, __interrupt__: waiting } : values
    const isPartial = hasUntrackedOutputs(graph)
    return { json: JSON.stringify(shown), interrupts: Object.fromEntries(asked), ...(isPartial && { isPartial }) }
  }

  /** The tasks that wait for an answer. */
  async #waiting(threadId: string, { tasks, config }: StateSnapshot): Promise<StateSnapshot['tasks']> {
    const asked = tasks.filter(({ interrupts = [] }) => interrupts.length > 0)
    const { checkpoint_id: id } = config.configurable ?? {}
    if (asked.length === 0 || typeof id !== 'string') return asked
    const stored = await this.#reads.load(threadId, '', id)
    const done = stored ? doneIn(stored) : new Set()
    return asked.filter((task) => !done.has(task.id))
  }

  async history(threadId: string, query: HistoryQuery): Promise<string[]> {
    const { limit, before, place, metadata, isBare = false } = query
    const graph = await this.#graphFor(threadId, 'threads.read')
    if (!graph) return []
    const options = {
      limit,
      ...(before !== null && { before: { configurable: { checkpoint_id: before } } }),
      ...(metadata && { filter: metadata })
    }
    return using(graph, async () => {
      const entries: string[] = []
      for await (const snapshot of graph.getStateHistory(configOf(threadId, place ?? NOWHERE), options))
        entries.push(JSON.stringify(stateView(snapshot, isBare)))
      return entries
    })
  }

  async update(threadId: string, change: StateChange): Promise<StateChanged> {
    const { place, values, asNode, command, graphId = null } = change
    if (place.checkpointId !== null && !(await this.#reads.load(threadId, place.namespace, place.checkpointId)))
      return { outcome: 'checkpoint_missing' }
    const title = titleIn(values)
    return this.#write(threadId, { graphId, title, place }, async (graph, { library }, config) => {
      // A graph without a title channel is not told about a new title.
      if (isOnlyTitle(values) && !Object.hasOwn(graph.channels ?? {}, 'title')) return
      const given = command ? commandOf(library, command) : values
      await graph.updateState(configOf(threadId, place, config), given, asNode ?? undefined)
    })
  }

  async build(
    threadId: string,
    graphId: string | null,
    supersteps: readonly (readonly StateUpdate[])[]
  ): Promise<StateChanged> {
    return this.#write(threadId, { graphId, title: null, place: NOWHERE }, async (graph, { library }, config) => {
      const steps = supersteps.map((updates) => ({
        updates: updates.map(({ values, asNode, command }) => ({
          values: command ? commandOf(library, command) : values,
          asNode: asNode ?? undefined
        }))
      }))
      // One call per step: between steps LangGraph keeps only the checkpoint of the config.
      for (const step of steps) await graph.bulkUpdateState?.(configOf(threadId, NOWHERE, config), [step])
    })
  }

  async #write(threadId: string, about: Written, work: UpdateWork): Promise<StateChanged> {
    if (await this.#threads.isBusy(threadId)) return { outcome: 'busy' }
    const id = (await this.#threads.graphOf(threadId)) ?? about.graphId
    const loaded = this.#set.find(id)
    if (!loaded) return { outcome: 'invalid', message: `there is no graph ${JSON.stringify(id)}` }
    return this.#updates.run(threadId, async () => {
      for (let attempt = 1; ; attempt++) {
        const began = performance.now()
        const changed = await this.#attempt(threadId, loaded, about, work)
        if (changed.outcome !== 'conflict' || attempt === ATTEMPTS) return changed
        // Who was faster begins its next one at once and would be faster again: its queue is given time to end.
        const took = performance.now() - began
        await pause(backoffMs(attempt, { first: took, most: PAUSE_MS_MAX }) * (0.5 + Math.random() / 2))
      }
    })
  }

  /** Collects the graph's writes and stores them in one transaction, if the thread is still at the version they are made of. */
  async #attempt(
    threadId: string,
    loaded: LoadedGraph,
    { title, place }: Written,
    work: UpdateWork
  ): Promise<StateChanged> {
    // Before anything is read of the state: what changes after this moment is noticed. A fork does not mind.
    const expected = place.checkpointId !== null ? {} : { expected: await this.#reads.version(threadId) }
    const session = new UpdateSession(this.#reads)
    return this.#set.inSession(session, async (named) => {
      let isWaiting: boolean
      try {
        const graph = await this.#make(loaded, threadId, 'threads.update')
        isWaiting = await using(graph, async () => {
          await work(graph, loaded, named)
          return (await graph.getState(configOf(threadId, NOWHERE, named))).next.length > 0
        })
      } catch (error) {
        if (error instanceof AgentError) throw error
        // Rejected by the graph; nothing was stored yet.
        return { outcome: 'invalid', message: messageOf(error) }
      }
      const status = isWaiting ? 'interrupted' : 'idle'
      const update = { thread_id: threadId, ...expected, writes: session.writes, status, title } as const
      const outcome = await this.#threads.update(update)
      if (outcome !== 'written') return { outcome }
      return { outcome, json: (await this.get(threadId, { ...place, checkpointId: null })) ?? '{}' }
    })
  }

  copy(fromId: string, toId: string): Promise<void> {
    return this.#threads.copy(fromId, toId)
  }

  // --------------------------------------------------------------------------------------------------- the graphs

  graphs(): GraphInfo[] {
    return this.#set.all.map(({ id, description, config, context }) => ({ id, description, config, context }))
  }

  schemas(graphId: string, config: JsonObject = {}): Promise<JsonObject | null> {
    return this.#describe(graphId, config, async (graph, loaded) => ({
      graph_id: graphId,
      ...(await this.#schemas.of(graph, loaded, ''))
    }))
  }

  draw(graphId: string, xray: boolean | number, config: JsonObject = {}): Promise<JsonObject | null> {
    return this.#describe(graphId, config, async (graph) => {
      const drawable = await graph.getGraphAsync?.({ ...config, xray })
      return objectOr(plain(drawable?.toJSON()))
    })
  }

  subgraphs(graphId: string, namespace: string | null, recurse: boolean, config: JsonObject = {}) {
    return this.#describe(graphId, config, async (graph, loaded) => {
      const found: JsonObject = {}
      for await (const [path, inner] of graph.getSubgraphsAsync?.(namespace ?? undefined, recurse) ?? []) {
        const schemas = await this.#schemas.of(inner, loaded, path)
        found[path] = { ...schemas, ...inServersWords(schemas) }
      }
      return found
    })
  }

  /** null: no such graph. */
  async #describe(
    graphId: string,
    config: JsonObject,
    describe: (graph: CompiledGraph, loaded: LoadedGraph) => JsonObject | Promise<JsonObject>
  ): Promise<JsonObject | null> {
    const loaded = this.#set.find(graphId)
    if (!loaded) return null
    const graph = await this.#make(loaded, null, 'assistants.read', config)
    return using(graph, () => describe(graph, loaded))
  }

  /** undefined: no such thread; null: it has no state yet. */
  async #snapshot(threadId: string, place: StatePlace, subgraphs: boolean): Promise<StateSnapshot | null | undefined> {
    if ((await this.#threads.graphOf(threadId)) === undefined) return undefined
    const graph = await this.#graphFor(threadId, 'threads.read')
    return graph && using(graph, () => graph.getState(configOf(threadId, place), { subgraphs }))
  }

  async #graphFor(threadId: string, access: Access): Promise<ReadableGraph | null> {
    const id = await this.#threads.graphOf(threadId)
    if (id === undefined) return null
    // What no graph has run yet, but was written to, is the first one's.
    if (id === null && (await this.#reads.list(threadId, { ns: '', limit: 1 })).length === 0) return null
    const loaded = this.#set.find(id)
    return loaded ? this.#make(loaded, threadId, access) : this.#set.gone()
  }

  /** @param given config of a factory; with a thread, that of its newest run is used */
  async #make(
    loaded: LoadedGraph,
    threadId: string | null,
    access: Access,
    given: JsonObject = {}
  ): Promise<CompiledGraph> {
    const isFactory = typeof loaded.made === 'function'
    const ran = isFactory && threadId !== null ? await this.#threads.configOf(threadId) : { config: given, context: {} }
    const own = { graph_id: loaded.id, ...(threadId !== null && { thread_id: threadId }) }
    const config = { ...ran.config, configurable: { ...objectOr(ran.config.configurable), ...own } }
    return this.#set.make(loaded, config, access, ran.context)
  }
}

/**
 * `checkpointId` null: the newest. LangGraph leaves out of a checkpoint that is named what its tasks have done since: of two at once, one of
 * which waits for an answer, what the other has written, as the run's stream has shown it.
 */
async function snapshotAt(graph: ReadableGraph, threadId: string, checkpointId: string | null): Promise<StateSnapshot> {
  const newest = await graph.getState(configOf(threadId, NOWHERE))
  const isIt = checkpointId === null || newest.config.configurable?.checkpoint_id === checkpointId
  return isIt ? newest : graph.getState(configOf(threadId, { checkpointId, namespace: '' }))
}

/** A graph made for this call alone. */
async function using<T>(graph: ReadableGraph, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } finally {
    graph.release?.()
  }
}

/** As the structured response of LangChain's createAgent. */
function hasUntrackedOutputs({ channels, outputChannels }: ReadableGraph): boolean {
  const outputs = Array.isArray(outputChannels) ? outputChannels : []
  return outputs.some((name) => {
    const channel = channels?.[String(name)]
    const isNamed = typeof channel === 'object' && channel !== null && 'lc_graph_name' in channel
    return isNamed && channel.lc_graph_name === 'UntrackedValue'
  })
}

function configOf(threadId: string, { checkpointId, namespace }: StatePlace, named: JsonObject = {}): object {
  return {
    configurable: {
      thread_id: threadId,
      checkpoint_ns: namespace,
      ...(checkpointId !== null && { checkpoint_id: checkpointId }),
      ...named
    }
  }
}

function titleIn(values: Json): string | null {
  const title = isObject(values) ? textOr(values.title) : null
  return title === null || title.trim() === '' ? null : title
}

/** Whether it is a thread's new name alone. */
export function isOnlyTitle(values: Json): boolean {
  return titleIn(values) !== null && isObject(values) && Object.keys(values).length === 1
}

/** A state for LangGraph's clients, with the flat members that other clients read. */
function stateView(snapshot: StateSnapshot | null, isBare = false): JsonObject {
  const isKnown = snapshot?.createdAt !== undefined && snapshot.createdAt !== ''
  return {
    values: isKnown ? plain(snapshot.values ?? {}) : {},
    ...checkpointView(isKnown ? fieldsOf(snapshot, isBare) : NEVER_RUN, isBare)
  }
}

function fieldsOf(snapshot: StateSnapshot, isBare: boolean): CheckpointFields {
  const { next, metadata, createdAt, config, parentConfig, tasks, interrupts } = snapshot
  const placeIn = interrupts ? knownPlaceIn : checkpointIn
  return {
    checkpoint: placeIn(config),
    parent: placeIn(parentConfig),
    ...(interrupts && { interrupts: plain(interrupts) }),
    createdAt: createdAt ?? null,
    next,
    tasks: tasks.map((task) => taskOf(task, isBare)),
    metadata: objectOr(metadata ? plain(metadata) : {})
  }
}

/** LangGraph's clients take a text, and read name and message where it is JSON. */
function errorText(error: unknown): string | null {
  if (error === undefined || error === null) return null
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : JSON.stringify(plain(error))
}

function taskOf(task: StateSnapshot['tasks'][number], isBare: boolean): TaskFields {
  const { id, name, error, interrupts = [], path, state, result } = task
  const isSnapshot = state !== undefined && 'values' in state
  const place = state !== undefined && 'configurable' in state ? (state.configurable ?? null) : null
  return {
    id,
    name,
    error: errorText(error),
    interrupts: plain(interrupts),
    path: plain(path ?? [name]),
    checkpoint: place && taskPlace(place),
    state: isSnapshot ? stateView(state, isBare) : null,
    result: plain(result ?? null)
  }
}
