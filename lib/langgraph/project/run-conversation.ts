// Derives a run's events and counts from the states and chunks of an in-process graph.
import { randomUUID } from 'node:crypto'
import { isChunk } from '../../conversation/chunk.ts'
import { bodiesByName, channelOf, type StoredGraphCheckpoint, wholeBody } from '../../conversation/state.ts'
import { type HumanMessage, isObject, type Json, type JsonObject, type Message } from '../../base/types.ts'
import { parseJson, textOr } from '../../base/json.ts'
import type { Sink } from '../../agent/runtime.ts'
import { readMessage, shownMetadata } from '../graph/message.ts'
import { Conversation } from '../graph/conversation.ts'

export class RunConversation {
  readonly #sink: Pick<Sink, 'record' | 'emit'>
  /** Ids of the messages a resumed run first started from; null: first attempt. */
  readonly #before: ReadonlySet<string> | null
  readonly #recorded: ReadonlySet<string>
  readonly #opened: () => StoredGraphCheckpoint | null
  readonly #conversation: Conversation
  /** Ids of messages of which a chunk was sent. */
  readonly #sent = new Set<string>()
  /** Ids of those that frames of the graph itself have shown, not of what is below it. */
  readonly #shown = new Set<string>()
  #hasValues = false

  /**
   * @param opened the checkpoint the run started from, once it has begun
   * @param attempt of a run resumed after a crash: ids of the messages it first started from, and of those recorded already
   */
  constructor(
    sink: Pick<Sink, 'record' | 'emit'>,
    opened: () => StoredGraphCheckpoint | null,
    attempt: { readonly found: ReadonlySet<string>; readonly recorded: ReadonlySet<string> } | null = null
  ) {
    this.#sink = sink
    this.#opened = opened
    this.#before = attempt?.found ?? null
    this.#recorded = attempt?.recorded ?? new Set()
    this.#conversation = new Conversation({ emit: () => {}, record: (record) => sink.record(record) })
  }

  /**
   * All metadata with a message's first chunk, the short form with the others.
   * @param isWhole all with each one
   */
  metadataOf(message: Json, metadata: unknown, isWhole: boolean): JsonObject {
    if (isWhole) return shownMetadata(metadata, true)
    const id = isObject(message) ? textOr(message.id) : null
    const isFirst = id === null || !this.#sent.has(id) || (isObject(message) && !isChunk(message))
    if (id !== null) this.#sent.add(id)
    return shownMetadata(metadata, isFirst)
  }

  chunk(message: Json, metadata: JsonObject, namespace: readonly string[]): void {
    // Without stream_subgraphs the namespace is only in the metadata.
    const path = textOr(metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns)?.split('|') ?? []
    const below = namespace.length > 0 ? namespace : path.slice(0, -1)
    const id = isObject(message) ? textOr(message.id) : null
    if (id !== null && below.length === 0) this.#shown.add(id)
    this.#conversation.chunk([message, metadata], below)
  }

  /** The graph's state after a superstep, or with its input. */
  values({ messages }: JsonObject): void {
    const list = Array.isArray(messages) ? messages : []
    const known = this.#conversation.messages
    const read = list.flatMap((one, at) => readMessage(one, () => known[at]?.id ?? randomUUID()) ?? [])
    if (!this.#hasValues) return this.#start(read)
    const ids = new Set(known.map(({ id }) => id))
    this.#conversation.messages = read
    for (const message of read) if (!ids.has(message.id)) this.#join(message)
    this.#conversation.step()
  }

  /** The graph is done. `values`: its state, in case it never emitted any. */
  end(values: JsonObject): void {
    if (!this.#hasValues) this.values(values)
    this.#conversation.step()
  }

  /**
   * The state with the run's input: new human messages in it are the user's. If a crash came after a superstep was stored
   * and before its messages were recorded, this attempt records them.
   */
  #start(messages: readonly Message[]): void {
    this.#hasValues = true
    const before = this.#before ?? idsIn(this.#opened())
    const isNew = (one: Message): one is HumanMessage => one.type === 'human' && !before.has(one.id)
    this.#sink.record({ type: 'heard', message: messages.findLast(isNew) ?? null })
    for (const [at, message] of messages.entries()) {
      // A message was written in answer to those before it.
      this.#conversation.messages = messages.slice(0, at)
      if (this.#before && !before.has(message.id) && !this.#recorded.has(message.id)) this.#join(message)
      else this.#conversation.remember(message)
    }
    this.#conversation.messages = messages
  }

  /** What a node returns that is no message of LangChain's, or what a graph below has said, no frame has shown here. */
  #join(message: Message): void {
    if (!this.#conversation.join(message) || this.#shown.has(message.id)) return
    this.#sink.emit({ type: 'frame', mode: 'joined', event: 'joined', json: JSON.stringify([message, {}]) })
  }
}

/** Ids of the messages in a stored state, in LangChain's serialised form. */
export function idsIn(stored: StoredGraphCheckpoint | null): Set<string> {
  const version = stored?.names.find((one) => channelOf(one) === 'messages')
  const value = version === undefined ? null : wholeBody(version, bodiesByName(stored?.values ?? []))
  const list = value?.type === 'json' ? parseJson(value.data) : undefined
  const ids = (Array.isArray(list) ? list : []).filter(isObject).map(({ id, kwargs }) => {
    return textOr(isObject(kwargs) ? kwargs.id : id) ?? ''
  })
  return new Set(ids)
}
