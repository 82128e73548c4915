// Derives the run's events and counts from a graph's stream: messages, tool calls and model usage.
import { randomUUID } from 'node:crypto'
import { isChunk } from '../../conversation/chunk.ts'
import { bodiesByName, channelOf, type StoredGraphCheckpoint, wholeBody } from '../../conversation/state.ts'
import {
  type HumanMessage,
  isObject,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall
} from '../../base/types.ts'
import { parseJson, textOr } from '../../base/json.ts'
import type { AgentRecord, Sink } from '../../agent/runtime.ts'
import { readMessage } from '../graph/message.ts'
import { MessageStreams } from '../graph/message-streams.ts'

/** Metadata sent with every piece; the rest only with the first piece of a message. */
const SHORT = ['tags', 'langgraph_node', 'langgraph_step', 'langgraph_checkpoint_ns', 'checkpoint_ns']

export class Conversation {
  readonly #sink: Pick<Sink, 'record'>
  readonly #before: ReadonlySet<string> | null
  readonly #recorded: ReadonlySet<string>
  readonly #opened: () => StoredGraphCheckpoint | null
  readonly #streams: MessageStreams
  readonly #calls = new Map<string, ToolCall>()
  /** Ids of messages of which a piece was sent. */
  readonly #told = new Set<string>()
  #messages: readonly Message[] = []
  #hasHeard = false

  /**
   * @param opened the checkpoint the run started from, once it has begun
   * @param attempt of a run resumed after a crash: ids of the messages it first started from, and of those recorded already
   */
  constructor(
    sink: Pick<Sink, 'record'>,
    opened: () => StoredGraphCheckpoint | null,
    attempt: { readonly found: ReadonlySet<string>; readonly recorded: ReadonlySet<string> } | null = null
  ) {
    this.#sink = sink
    this.#opened = opened
    this.#before = attempt?.found ?? null
    this.#recorded = attempt?.recorded ?? new Set()
    const listener = { emit: () => {}, record: (record: AgentRecord) => this.#record(record) }
    this.#streams = new MessageStreams(listener, (id) => this.#leadingTo(id))
  }

  /** All metadata with a message's first piece, the short form with the others. */
  metadataOf(message: Json, metadata: unknown): JsonObject {
    const id = isObject(message) ? textOr(message.id) : null
    const isFirst = id === null || !this.#told.has(id) || (isObject(message) && !isChunk(message))
    if (id !== null) this.#told.add(id)
    const given = Object.entries(typeof metadata === 'object' && metadata !== null ? metadata : {})
    const kept = given.filter(([key]) => (isFirst ? !/^(__|langgraph_auth_)/.test(key) : SHORT.includes(key)))
    // LangGraph's metadata of a piece is JSON.
    return Object.fromEntries(kept) as JsonObject
  }

  piece(message: Json, metadata: JsonObject, namespace: readonly string[]): void {
    // Without stream_subgraphs the namespace is only in the metadata.
    const place = textOr(metadata.checkpoint_ns)?.split('|') ?? []
    const names = namespace.length > 0 ? namespace : place.slice(0, -1)
    this.#streams.hear([message, metadata], names, (id) => this.#messages.some((one) => one.id === id))
  }

  /** The graph's state after a superstep, or with its input. */
  values({ messages }: JsonObject): void {
    const given = Array.isArray(messages) ? messages : []
    const known = this.#messages
    const theirs = given.flatMap((one, at) => readMessage(one, () => known[at]?.id ?? randomUUID()) ?? [])
    if (!this.#hasHeard) return this.#begin(theirs)
    const ids = new Set(known.map(({ id }) => id))
    this.#messages = theirs
    for (const message of theirs) if (!ids.has(message.id)) this.#join(message)
    this.#streams.step()
  }

  /** The graph is done. `values`: its state, in case it never emitted any. */
  end(values: JsonObject): void {
    if (!this.#hasHeard) this.values(values)
    this.#streams.step()
  }

  /**
   * The state with the run's input: new human messages in it are the user's. If a crash came after a superstep was stored
   * and before its messages were recorded, this attempt records them.
   */
  #begin(messages: readonly Message[]): void {
    this.#hasHeard = true
    const before = this.#before ?? idsIn(this.#opened())
    const isNew = (one: Message): one is HumanMessage => one.type === 'human' && !before.has(one.id)
    this.#record({ type: 'heard', message: messages.findLast(isNew) ?? null })
    for (const [at, message] of messages.entries()) {
      // A message was written in answer to those before it.
      this.#messages = messages.slice(0, at)
      if (this.#before && !before.has(message.id) && !this.#recorded.has(message.id)) this.#join(message)
      else if (message.type === 'ai') this.#remember(message.tool_calls)
    }
    this.#messages = messages
  }

  #join(message: Message): void {
    if (message.type === 'ai') {
      this.#streams.join(message)
      this.#remember(message.tool_calls)
      for (const call of message.tool_calls) this.#record({ type: 'tool_start', call })
    } else if (message.type === 'tool') {
      const { tool_call_id: id, name } = message
      const call = this.#calls.get(id) ?? { name: name ?? '', args: {}, id, type: 'tool_call' }
      this.#record({ type: 'tool_end', call, message: { ...message, name: name ?? call.name } })
    }
  }

  #remember(calls: readonly ToolCall[]): void {
    for (const call of calls) this.#calls.set(call.id, call)
  }

  #leadingTo(id: string): readonly Message[] {
    const at = this.#messages.findIndex((message) => message.id === id)
    return at < 0 ? this.#messages : this.#messages.slice(0, at)
  }

  #record(record: AgentRecord): void {
    this.#sink.record(record)
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
