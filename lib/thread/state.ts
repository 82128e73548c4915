// The state of a thread in memory: immutable, with each message and channel as its stored JSON text. Texts are not parsed, because
// a state is mostly passed on to checkpoints, values frames and replies.
import type { Json, Message } from '../base/types.ts'
import type { CheckpointWrite, Store, StoredCheckpoint, StoredGraphCheckpoint } from '../store/store.ts'
import { INTERRUPTS } from '../conversation/interrupts.ts'
import { wellFormedJson } from '../base/json.ts'
import type { InputMessage } from '../conversation/message.ts'
import { bodiesByName, channelOf, inRanges, wholeBody } from '../conversation/state.ts'

/** Removing this id clears the conversation. */
const REMOVE_ALL = '__remove_all__'

const ID_KEY = '"id":'

/**
 * The id of a stored message. Avoids parsing, because a conversation has thousands: if the text contains only one member
 * `id`, that is it.
 */
export function idOfText(json: string): string {
  const at = json.indexOf(ID_KEY)
  const from = at + ID_KEY.length + 1
  if (at >= 0 && json[from - 1] === '"' && json.indexOf(ID_KEY, from) < 0) {
    const id = json.slice(from, json.indexOf('"', from))
    if (!id.includes('\\')) return id
  }
  // Serialised from a message.
  return (JSON.parse(json) as Message).id
}

/** One version of one message or channel. */
interface Body {
  /** Number of the body in its thread. */
  readonly no: number
  readonly json: string
}
interface MessageBody extends Body {
  readonly id: string
}

/** What a state consists of. */
interface Parts {
  readonly messages: readonly MessageBody[]
  readonly channels: ReadonlyMap<string, Body>
  /** Bodies that are in no checkpoint yet. */
  readonly fresh: readonly Body[]
  readonly nextBody: number
}

/** Internal channels, which clients can neither see nor write [contract 2.5]. */
export function isInternal(channel: string): boolean {
  return channel.startsWith('__pregel_') || channel.startsWith('__interrupt__')
}

/** Up to this many are searched linearly; more get an index. */
const FEW = 8

/** The messages of a state during a change, in linear time. */
class MessageList {
  /** null: removed. */
  #slots: (MessageBody | null)[]
  #hasGaps = false
  /** Index by id; null: linear search. */
  readonly #places: Map<string, number[]> | null

  constructor(messages: readonly MessageBody[], changes: number) {
    this.#slots = messages.slice()
    this.#places = changes > FEW ? new Map() : null
    if (this.#places) for (const [at, { id }] of messages.entries()) this.#note(id, at)
  }

  put(body: MessageBody): void {
    const known = this.#find(body.id).at(-1)
    if (known !== undefined) this.#slots[known] = body
    else this.#note(body.id, this.#slots.push(body) - 1)
  }

  remove(id: string): void {
    if (id === REMOVE_ALL) {
      this.#slots = []
      this.#hasGaps = false
      this.#places?.clear()
      return
    }
    for (const at of this.#find(id)) {
      this.#slots[at] = null
      this.#hasGaps = true
    }
    this.#places?.delete(id)
  }

  all(): readonly MessageBody[] {
    if (this.#hasGaps) return this.#slots.filter((one) => one !== null)
    // Without gaps there are no nulls; most runs take nothing out, and a long thread is not copied once more.
    return this.#slots as MessageBody[]
  }

  #find(id: string): readonly number[] {
    if (this.#places) return this.#places.get(id) ?? []
    // A counting loop: all messages of the thread are looked at for each that a run adds, and a `flatMap` takes ten times as long.
    const places: number[] = []
    for (let at = 0; at < this.#slots.length; at++) if (this.#slots[at]?.id === id) places.push(at)
    return places
  }

  #note(id: string, at: number): void {
    const places = this.#places?.get(id)
    if (places) places.push(at)
    else this.#places?.set(id, [at])
  }
}

export class State {
  readonly #parts: Parts

  private constructor(parts: Parts) {
    this.#parts = parts
  }

  static readonly empty = new State({ messages: [], channels: new Map(), fresh: [], nextBody: 0 })

  static fromStored(stored: StoredCheckpoint): State {
    return new State({
      messages: stored.messageBodies.map(({ no, json: text }) => {
        const json = wellFormedJson(text)
        return { no, json, id: idOfText(json) }
      }),
      channels: new Map(stored.channelBodies.map(({ name, no, json }) => [name, { no, json: wellFormedJson(json) }])),
      fresh: [],
      nextBody: stored.nextBody
    })
  }

  /**
   * Adds messages, replaces those with a known id, and removes with `remove`. `texts`: their JSON, if the caller has it already.
   */
  withMessages(given: readonly InputMessage[], texts: readonly string[] = []): State {
    const { channels, fresh, nextBody } = this.#parts
    const list = new MessageList(this.#parts.messages, given.length)
    const added: Body[] = []
    for (const [index, message] of given.entries()) {
      if (message.type === 'remove') {
        list.remove(message.id)
        continue
      }
      const body = { no: nextBody + added.length, json: texts[index] ?? JSON.stringify(message), id: message.id }
      added.push(body)
      list.put(body)
    }
    return new State({
      messages: list.all(),
      channels,
      fresh: [...fresh, ...added],
      nextBody: nextBody + added.length
    })
  }

  withChannels(changes: Readonly<Record<string, Json>>): State {
    const { messages, fresh, nextBody } = this.#parts
    const channels = new Map(this.#parts.channels)
    const added: Body[] = []
    for (const [name, value] of Object.entries(changes)) {
      const body = { no: nextBody + added.length, json: JSON.stringify(value) }
      added.push(body)
      channels.set(name, body)
    }
    return new State({ messages, channels, fresh: [...fresh, ...added], nextBody: nextBody + added.length })
  }

  /** A checkpoint of this state, and the state without unsaved bodies to continue from. */
  toCheckpoint(head: Omit<CheckpointWrite, 'messages' | 'channels' | 'bodies'>): {
    checkpoint: CheckpointWrite
    saved: State
  } {
    const { messages, channels, fresh } = this.#parts
    const checkpoint: CheckpointWrite = {
      messages: inRanges(messages.map((one) => one.no)),
      channels: Object.fromEntries([...channels].map(([name, body]) => [name, body.no])),
      bodies: fresh.map(({ no, json }) => ({ no, json })),
      ...head
    }
    return { checkpoint, saved: new State({ ...this.#parts, fresh: [] }) }
  }

  /** Has changes that are in no checkpoint yet. */
  get hasFresh(): boolean {
    return this.#parts.fresh.length > 0
  }

  get length(): number {
    return this.#parts.messages.length
  }

  /** Number of the next body of its thread. */
  get nextBody(): number {
    return this.#parts.nextBody
  }

  /** Number and total length of its texts. */
  get size(): { texts: number; bytes: number } {
    const { messages, channels } = this.#parts
    let bytes = 0
    for (const { json } of messages) bytes += json.length
    for (const { json } of channels.values()) bytes += json.length
    return { texts: messages.length + channels.size, bytes }
  }

  /** This state again, after `later`: body numbers assigned meanwhile are not reused. */
  following(later: State): State {
    return new State({ ...this.#parts, nextBody: later.#parts.nextBody })
  }

  /** The state as sent in streams, deterministic. */
  json(): string {
    return stateJson(
      this.#parts.messages,
      [...this.#parts.channels].map(([name, { json }]) => ({ name, json })),
      true
    )
  }

  messages(): Message[] {
    // Bodies are only ever made from messages.
    return this.#parts.messages.map(({ json }) => JSON.parse(json) as Message)
  }

  /** Parses each message on demand. */
  *eachMessage(): Generator<Message> {
    // Bodies are only ever made from messages.
    for (const { json } of this.#parts.messages) yield JSON.parse(json) as Message
  }

  /** JSON texts of the messages that are not in `since`, in order. */
  messagesSince(since: State): string[] {
    const known = new Set(since.#parts.messages.map((one) => one.no))
    return this.#parts.messages.filter((one) => !known.has(one.no)).map((one) => one.json)
  }

  channel(name: string): Json | undefined {
    const body = this.#parts.channels.get(name)
    // Bodies are only ever made from JSON.
    return body && (JSON.parse(body.json) as Json)
  }

  /** All channels, including internal ones clients do not see. */
  channels(): Record<string, Json> {
    const given = [...this.#parts.channels].filter(([name]) => name !== INTERRUPTS)
    return Object.fromEntries(given.map(([name, body]) => [name, JSON.parse(body.json) as Json]))
  }
}

/** The JSON of a stored state, concatenated from its texts. */
export function storedJson(stored: StoredCheckpoint): string {
  return wellFormedJson(stateJson(stored.messageBodies, stored.channelBodies))
}

/** The newest state of a thread as JSON, whether we keep it or its graph does: of that what is no JSON is left out. null: it has none. */
export async function newestJson(
  { checkpoints, graphStates }: Pick<Store, 'checkpoints' | 'graphStates'>,
  threadId: string
): Promise<string | null> {
  const ofGraph = await graphStates.load(threadId, '', null)
  if (ofGraph) return graphJson(ofGraph)
  const own = await checkpoints.load(threadId, null)
  return own && storedJson(own)
}

/** Channels by which a graph leads itself. */
const LEADING = /^(__|branch:)/

function graphJson({ names, values }: StoredGraphCheckpoint): string {
  const bodies = bodiesByName(values)
  const members = names.flatMap((version) => {
    const [channel, body] = [channelOf(version), wholeBody(version, bodies)]
    return LEADING.test(channel) || body?.type !== 'json' ? [] : [`${JSON.stringify(channel)}:${body.data}`]
  })
  return wellFormedJson(`{${members.join(',')}}`)
}

/** The same for streams: with open interrupts. */
export function streamedJson(stored: StoredCheckpoint): string {
  return wellFormedJson(stateJson(stored.messageBodies, stored.channelBodies, true))
}

/**
 * Channels are sorted by name, because stores may not keep their order. Concatenation builds a rope, which is copied only once,
 * when it is sent.
 */
function stateJson(
  messages: readonly { readonly json: string }[],
  channels: readonly { readonly name: string; readonly json: string }[],
  withInterrupts = false
): string {
  const isShown = ({ name, json }: { readonly name: string; readonly json: string }): boolean =>
    !isInternal(name) || (withInterrupts && name === INTERRUPTS && json !== '[]')
  const shown = channels.filter(isShown).sort((one, other) => (one.name < other.name ? -1 : 1))
  let text = ''
  for (const { json } of messages) text += text === '' ? `"messages":[${json}` : `,${json}`
  if (text !== '') text += ']'
  for (const { name, json } of shown) text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${json}`
  return `{${text}}`
}

/** A stored state: what a run starts from. */
export interface SavedState {
  readonly state: State
  readonly checkpointId: string
  /** Step number of its checkpoint; -1: it has none. */
  readonly step: number
  /** Nodes that would run next: those that wait for an answer. */
  readonly next: readonly string[]
  /** Characters of its texts, where it was read. Absent: a run has left it in memory, where only short ones are. */
  readonly characters?: number
}

export function savedState(stored: StoredCheckpoint): SavedState {
  const { step } = stored.metadata
  const state = State.fromStored(stored)
  return {
    state,
    characters: state.size.bytes,
    checkpointId: stored.checkpoint_id,
    step: typeof step === 'number' ? step : -1,
    next: stored.next
  }
}
