// Thread states from our checkpoints: for the built-in agent and agents in files. LangGraph graphs have their own.
import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type {
  GraphDescriptions,
  GraphInfo,
  HistoryQuery,
  KeptState,
  KeptStates,
  StateChange,
  StateChanged,
  StatePlace,
  StateUpdate,
  StateValues
} from '../agent/states.ts'
import type { CheckpointHead, CheckpointReads, HistoryPage, Store, StoredCheckpoint, Writer } from '../store/store.ts'
import { hasMembers } from '../base/json.ts'
import { type JsonObject, timestamp, type Json, isObject } from '../base/types.ts'
import { decorated, headView, historyView, messageIds, stateView, waitingIn } from './checkpoint.ts'
import { checkpointId } from './thread.ts'
import { MessageInvalid, readMessages } from '../conversation/message.ts'
import { isInternal, State, storedJson, streamedJson } from './state.ts'
import { displayName } from './title.ts'

/** Maximum characters of a history page. */
const HISTORY_LENGTH = 16 * 1024 * 1024

/** Threads with a state that is too long to grow. */
const LONG_STATES = 1_000

/** Heads of checkpoints that are looked at together. */
const HEADS = 200

/** Name of the only graph. */
const GRAPH = 'lead_agent'

export class StoredStates implements KeptStates {
  readonly isOfGraphs = false
  readonly takesBreakpoints: boolean
  readonly #store: Pick<Store, 'checkpoints' | 'events' | 'feedback'>
  readonly #writer: Writer
  /** Characters of the longest state that may still grow. */
  readonly #most: number
  /** Those that are longer, by thread: the checkpoint. */
  readonly #long = new LRUCache<string, string>({ max: LONG_STATES })
  /** null: there is only the lead agent. */
  readonly #graphs: GraphDescriptions | null

  constructor(
    store: Pick<Store, 'checkpoints' | 'events' | 'feedback'>,
    writer: Writer,
    most: number,
    graphs: GraphDescriptions | null = null
  ) {
    this.#store = store
    this.#writer = writer
    this.#most = most
    this.#graphs = graphs
    this.takesBreakpoints = graphs !== null
  }

  async has(threadId: string, id: string): Promise<boolean> {
    return (await this.#store.checkpoints.load(threadId, id, [])) !== null
  }

  /** A namespace is that of a subgraph, of which there is none. */
  async get(threadId: string, { checkpointId: id, namespace }: StatePlace): Promise<string | null> {
    if (namespace !== '') return null
    const stored = await this.#store.checkpoints.load(threadId, id)
    return stored && stateView(stored)
  }

  async values(threadId: string, id: string | null): Promise<StateValues | null> {
    const stored = await this.#store.checkpoints.load(threadId, id)
    // Final values include open interrupts; lists show them separately.
    return stored && { json: id === null ? storedJson(stored) : streamedJson(stored), interrupts: waitingIn(stored) }
  }

  async history(threadId: string, query: HistoryQuery): Promise<string[]> {
    const { user, metadata, place } = query
    if (place !== null && place.namespace !== '') return []
    const found = await (metadata ? this.#withMetadata(threadId, query, metadata) : this.#page(threadId, query))
    return (await this.#decorated(threadId, found, user)).map(historyView)
  }

  /** Looks through all that are older, at their heads: most of them are not wanted. Those that follow each other are read together. */
  async #withMetadata(threadId: string, query: HistoryQuery, wanted: JsonObject): Promise<StoredCheckpoint[]> {
    const { checkpoints } = this.#store
    const found: StoredCheckpoint[] = []
    let { before } = query
    let length = 0
    for (;;) {
      const heads = await checkpoints.history(threadId, { limit: HEADS, ...behind(before) })
      for (const { after, count } of spansOf(heads, before, wanted)) {
        const limit = Math.min(count, query.limit - found.length)
        const page = await historyPage(
          checkpoints,
          threadId,
          { limit, channels: null, ...behind(after) },
          HISTORY_LENGTH - length
        )
        // There may be a newer one by now.
        found.push(...page.filter((stored) => bears(stored, wanted)))
        length += page.reduce((sum, stored) => sum + lengthOf(stored), 0)
        if (found.length === query.limit || length >= HISTORY_LENGTH || page.length < limit) return found
      }
      before = heads.at(-1)?.checkpoint_id ?? before
      if (heads.length < HEADS) return found
    }
  }

  async kept(threadId: string, query: Pick<HistoryQuery, 'limit' | 'before' | 'user'>): Promise<KeptState[]> {
    const page = await this.#page(threadId, query)
    const shown = await this.#decorated(threadId, page, query.user)
    return page.map((stored, at) => ({
      checkpointId: stored.checkpoint_id,
      json: historyView(shown[at]!),
      state: () => {
        const state = State.fromStored(stored)
        return { messages: state.messages(), channels: state.channels() }
      }
    }))
  }

  #page(threadId: string, { limit, before }: Pick<HistoryQuery, 'limit' | 'before'>): Promise<StoredCheckpoint[]> {
    const page = { limit, channels: null, ...behind(before) }
    return historyPage(this.#store.checkpoints, threadId, page, HISTORY_LENGTH)
  }

  async update(threadId: string, change: StateChange): Promise<StateChanged> {
    const { place, values, asNode, expected } = change
    if (place.namespace !== '') return { outcome: 'invalid', message: `there is no subgraph "${place.namespace}"` }
    let changes: Changes
    try {
      changes = changesOf(isObject(values) ? values : {})
    } catch (error) {
      if (error instanceof MessageInvalid) return { outcome: 'invalid', message: error.message, index: error.index }
      throw error
    }
    const newest = await this.#store.checkpoints.load(threadId, null, [])
    if (newest && (await this.#outgrows(newest, changes)))
      return { outcome: 'invalid', message: `the state has more than ${this.#most} characters already` }
    const written = await this.#writer.write({
      name: 'state.update',
      thread_id: threadId,
      base: place.checkpointId,
      ...(expected !== undefined && { expected }),
      checkpoint_id: checkpointId(newest?.checkpoint_id),
      now: timestamp(),
      as_node: asNode,
      ...changes
    })
    if (written.outcome !== 'written') return written
    const stored = await this.#store.checkpoints.load(threadId, written.checkpoint.checkpoint_id)
    if (stored && lengthOf(stored) > this.#most) this.#long.set(threadId, stored.checkpoint_id)
    return { outcome: 'written', json: stored ? stateView(stored) : JSON.stringify(headView(written.checkpoint)) }
  }

  /** Whether a change makes a state longer that is too long already. Such a one was seen when it was written: only it is read once more. */
  async #outgrows({ thread_id, checkpoint_id }: CheckpointHead, { messages, channels }: Changes): Promise<boolean> {
    if (this.#long.get(thread_id) !== checkpoint_id) return false
    const stored = await this.#store.checkpoints.load(thread_id, checkpoint_id)
    const channelBodies = stored?.channelBodies.filter(({ name }) => Object.hasOwn(channels, name)) ?? []
    const replaced = { messageBodies: messages === null ? [] : (stored?.messageBodies ?? []), channelBodies }
    const given = [...(messages ?? []), ...Object.values(channels)]
    return given.reduce((sum, text) => sum + text.length, 0) > lengthOf(replaced)
  }

  async build(
    threadId: string,
    _graphId: string | null,
    supersteps: readonly (readonly StateUpdate[])[]
  ): Promise<StateChanged> {
    let last: StateChanged = { outcome: 'invalid', message: 'there is no update' }
    for (const update of supersteps.flat()) {
      last = await this.update(threadId, { ...update, place: NEWEST, user: null })
      if (last.outcome !== 'written') return last
    }
    return last
  }

  async copy(from: string, to: string): Promise<void> {
    await this.#writer.write({ name: 'state.copy', from, thread_id: to })
  }

  graphs(): readonly GraphInfo[] {
    const known = this.#graphs?.graphs() ?? []
    return known.length > 0 ? known : [{ id: GRAPH, description: null }]
  }

  async schemas(graphId: string, config?: JsonObject): Promise<JsonObject | null> {
    const told = await this.#graphs?.schemas(graphId, config)
    if (told || graphId !== GRAPH) return told ?? null
    const state = { type: 'object', properties: { messages: { type: 'array', items: { type: 'object' } } } }
    const none = { type: 'object', properties: {} }
    return {
      graph_id: graphId,
      input_schema: state,
      output_schema: state,
      state_schema: state,
      config_schema: none,
      context_schema: none
    }
  }

  async draw(graphId: string, xray: boolean | number, config?: JsonObject): Promise<JsonObject | null> {
    const told = await this.#graphs?.draw(graphId, xray, config)
    return told ?? (graphId === GRAPH ? { ...DRAWING } : null)
  }

  async subgraphs(
    graphId: string,
    namespace: string | null,
    recurse: boolean,
    config?: JsonObject
  ): Promise<JsonObject | null> {
    const told = await this.#graphs?.subgraphs(graphId, namespace, recurse, config)
    return told ?? (graphId === GRAPH ? {} : null)
  }

  /** Adds run ids and feedback, read once for the whole page. */
  async #decorated(threadId: string, page: StoredCheckpoint[], user: string | null): Promise<StoredCheckpoint[]> {
    const idsByNo = messageIds(page)
    const ids = [...new Set(idsByNo.values())]
    if (ids.length === 0) return page
    const origins = await this.#store.events.runsOfMessages(threadId, ids, user)
    const runs = new Set([...origins.values()].map(({ run_id }) => run_id))
    const feedback = (await this.#store.feedback?.byRuns(threadId, [...runs], user)) ?? null
    return decorated(page, idsByNo, origins, feedback)
  }
}

function behind(before: string | null): { readonly before?: string } {
  return before === null ? {} : { before }
}

/** Whether a checkpoint has this metadata, or what is in columns of its own. */
function bears({ metadata, thread_id, run_id }: CheckpointHead, wanted: JsonObject): boolean {
  return hasMembers({ ...metadata, thread_id, ...(run_id !== null && { run_id }) }, wanted)
}

/** Wanted ones that follow each other: how many, and behind which one. */
function spansOf(heads: readonly CheckpointHead[], before: string | null, wanted: JsonObject) {
  const spans: { readonly after: string | null; count: number }[] = []
  let isWithin = false
  for (const [at, head] of heads.entries()) {
    const isWanted = bears(head, wanted)
    if (isWanted && isWithin) spans.at(-1)!.count++
    else if (isWanted) spans.push({ after: heads[at - 1]?.checkpoint_id ?? before, count: 1 })
    isWithin = isWanted
  }
  return spans
}

const NEWEST: StatePlace = { checkpointId: null, namespace: '' }

/** The graph of an agent that alternates model and tools. */
const DRAWING: JsonObject = {
  nodes: [
    { id: '__start__', type: 'schema', data: '__start__' },
    { id: 'agent', type: 'runnable', data: { id: ['agent'], name: 'agent' } },
    { id: 'tools', type: 'runnable', data: { id: ['tools'], name: 'tools' } },
    { id: '__end__', type: 'schema', data: '__end__' }
  ],
  edges: [
    { source: '__start__', target: 'agent' },
    { source: 'agent', target: 'tools', conditional: true },
    { source: 'agent', target: '__end__', conditional: true },
    { source: 'tools', target: 'agent' }
  ]
}

interface Changes {
  readonly messages: string[] | null
  readonly channels: Record<string, string>
  readonly title: string | null
}

/** An update as texts by channel. An empty title is ignored. */
function changesOf({ messages, ...rest }: JsonObject): Changes {
  const title = displayName(rest.title)
  const kept = Object.entries(rest).filter(
    ([channel]) => !isInternal(channel) && (channel !== 'title' || title !== null)
  )
  const given = messages as Json | undefined
  const replaced =
    given === undefined || given === null
      ? null
      : readMessages(given, randomUUID).filter((one) => one.type !== 'remove')
  return {
    messages: replaced?.map((message) => JSON.stringify(message)) ?? null,
    channels: Object.fromEntries(kept.map(([channel, value]) => [channel, JSON.stringify(value)])),
    title
  }
}

// ------------------------------------------------------------------------------------------------------- history

type MessageBody = StoredCheckpoint['messageBodies'][number]

/**
 * Newest first. The page ends before its texts would exceed `maxLength`, but has at least one entry; the next page continues
 * with `before`.
 */
export async function historyPage(
  checkpoints: CheckpointReads,
  threadId: string,
  page: HistoryPage,
  maxLength: number
): Promise<StoredCheckpoint[]> {
  const [newest, ...older] = await checkpoints.history(threadId, page)
  if (!newest) return []
  const known = new Map<number, MessageBody>()
  const learn = (bodies: readonly MessageBody[]) => {
    for (const body of bodies) known.set(body.no, body)
  }
  learn(newest.messageBodies)
  const entries = [newest]
  let left = maxLength - lengthOf(newest)
  for (const entry of older) {
    let messageBodies: readonly MessageBody[] | null = bodiesIn(entry, known)
    if (!messageBodies) {
      const stored = await checkpoints.load(threadId, entry.checkpoint_id, ['messages'])
      // The thread was deleted meanwhile.
      if (!stored) break
      messageBodies = stored.messageBodies
      learn(messageBodies)
    }
    const whole = { ...entry, messageBodies }
    left -= lengthOf(whole)
    if (left < 0) break
    entries.push(whole)
  }
  return entries
}

/** The messages of an entry; null: some are unknown. */
function bodiesIn({ messages }: StoredCheckpoint, known: ReadonlyMap<number, MessageBody>): MessageBody[] | null {
  const bodies: MessageBody[] = []
  for (const [from, to] of messages)
    for (let no = from; no <= to; no++) {
      const body = known.get(no)
      if (!body) return null
      bodies.push(body)
    }
  return bodies
}

/** Characters of its texts. */
function lengthOf({ messageBodies, channelBodies }: Pick<StoredCheckpoint, 'messageBodies' | 'channelBodies'>): number {
  let length = 0
  for (const { json } of messageBodies) length += json.length
  for (const { json } of channelBodies) length += json.length
  return length
}
