// A message that grows by chunks: the one fold, for models' answers, graphs' pieces, stored frames and clients. Served to browsers with
// the client, so it imports nothing that runs.
import type { Json, JsonObject, UsageMetadata } from '../base/types.ts'

/** Part of a tool call. */
export interface CallChunk {
  /** Tells the calls of a message apart; null: its id does, or it continues the last one. */
  readonly index: Json
  readonly id?: string | null
  readonly name?: string | null
  /** Text of the arguments, to be appended. */
  readonly args: string
}

/** What one chunk adds to its message. */
export interface Chunk {
  readonly text?: string | undefined
  readonly reasoning?: string | undefined
  /** Content that comes as a list. */
  readonly blocks?: readonly Json[]
  readonly calls?: readonly CallChunk[]
  /** Of the whole message so far: it replaces what was known. */
  readonly usage?: UsageMetadata | undefined
  /** Its other fields: the name, LangChain's metadata, the usage of this chunk alone. */
  readonly fields?: JsonObject
}

interface GrowingCall {
  readonly index: Json
  readonly id: string | null
  readonly name: string | null
  readonly args: GrowingText
}

/** In a delta: its message with it, where whoever makes the deltas has folded them already. Only our own code can name it. */
export const GROWN: unique symbol = Symbol('grown')

/** A message as far as it has come. Immutable: readers at the same position share it. */
export interface GrowingMessage {
  readonly id: string
  readonly text: GrowingText
  readonly reasoning: GrowingText
  /** The content, once a chunk of it was a list; null: it is the text. */
  readonly blocks: readonly Json[] | null
  readonly calls: readonly GrowingCall[]
  readonly usage: UsageMetadata | null
  readonly fields: JsonObject
  /** Characters of its texts and calls. */
  readonly size: number
}

// -------------------------------------------------------------------------------------------------------- texts

const PIECES = 16
/** Browsers got `isWellFormed` later than the rest of this. */
const LONE = /\p{Surrogate}/u
const LONE_ALL = /\p{Surrogate}/gu

/**
 * A text that grows in small pieces. Appending to a string a thousand times builds a tree of a thousand nodes, which every
 * garbage collection walks until somebody reads the string: here pieces are joined sixteen at a time. A surrogate pair is never
 * shown in halves: a trailing high one waits for its low one, and a lone one becomes U+FFFD.
 */
export class GrowingText {
  /** What the last piece has added: whole characters. */
  readonly added: string
  readonly length: number
  readonly #head: string
  /** Shared with the texts before and after: only the first `#count` are this one's. */
  readonly #pieces: string[]
  readonly #count: number
  /** A high surrogate that waits. */
  readonly #half: string

  constructor(head: string, pieces: string[], count: number, length: number, half: string, added: string) {
    this.#head = head
    this.#pieces = pieces
    this.#count = count
    this.#half = half
    this.length = length
    this.added = added
  }

  with(piece: string): GrowingText {
    const text = this.#half === '' ? piece : this.#half + piece
    const isHalf = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800
    const whole = isHalf ? text.slice(0, -1) : text
    return this.#with(LONE.test(whole) ? whole.replaceAll(LONE_ALL, '\uFFFD') : whole, isHalf ? text.slice(-1) : '')
  }

  /** The other half of a surrogate will not come. */
  ended(): GrowingText {
    return this.#half === '' ? this : this.#with('\uFFFD', '')
  }

  get isEmpty(): boolean {
    return this.length === 0
  }

  toString(): string {
    return this.#count === 0 ? this.#head : this.#head + this.#pieces.slice(0, this.#count).join('')
  }

  #with(added: string, half: string): GrowingText {
    const length = this.length + added.length
    if (added === '') return new GrowingText(this.#head, this.#pieces, this.#count, length, half, '')
    if (this.#count === PIECES) return new GrowingText(String(this), [added], 1, length, half, added)
    // Another text may have grown from the same beginning.
    const pieces =
      this.#pieces.length === this.#count && this.#count > 0 ? this.#pieces : this.#pieces.slice(0, this.#count)
    pieces.push(added)
    return new GrowingText(this.#head, pieces, this.#count + 1, length, half, added)
  }
}

/** Every text grows from this one. */
export const emptyText = new GrowingText('', [], 0, 0, '', '')

// --------------------------------------------------------------------------------------------------------- fold

export function begun(id: string): GrowingMessage {
  return {
    id,
    text: emptyText,
    reasoning: emptyText,
    blocks: null,
    calls: NO_CALLS,
    usage: null,
    fields: NO_FIELDS,
    size: 0
  }
}

const NO_CALLS: readonly GrowingCall[] = []
const NO_FIELDS: JsonObject = {}

/** The message with one more chunk. */
export function fold(message: GrowingMessage, chunk: Chunk): GrowingMessage {
  const { id } = message
  const { text, reasoning, blocks, calls, usage, fields } = chunk
  let { size } = message
  size += (text?.length ?? 0) + (reasoning?.length ?? 0)
  if (calls) for (const call of calls) size += call.args.length + (call.name?.length ?? 0) + (call.id?.length ?? 0)
  // A literal: a spread costs ten times as much, and this runs for every delta.
  return {
    id,
    text: text ? message.text.with(text) : message.text,
    reasoning: reasoning ? message.reasoning.with(reasoning) : message.reasoning,
    blocks: message.blocks === null && blocks === undefined ? null : addBlocks(message, text, blocks),
    calls: calls ? calls.reduce(addCall, message.calls) : message.calls,
    usage: usage ?? message.usage,
    fields: fields ? addFields(message.fields, fields) : message.fields,
    size
  }
}

/** The most that one message may grow to. */
export interface MessageLimits {
  /** Of its texts, and of the names, ids and arguments of its calls. */
  readonly characters: number
  readonly calls: number
}

export const MESSAGE_LIMITS: MessageLimits = { characters: 64 * 1024 * 1024, calls: 256 }

/** What there is too much of, as the object of a sentence; null: nothing. */
export function excessOf({ size, calls }: GrowingMessage, { characters, calls: most }: MessageLimits): string | null {
  if (size > characters) return `more than ${characters} characters in one message`
  return calls.length > most ? `more than ${most} tool calls in one message` : null
}

/** Nothing follows: texts that waited for the other half of a character end. */
export function ended(message: GrowingMessage): GrowingMessage {
  return { ...message, text: message.text.ended(), reasoning: message.reasoning.ended() }
}

/** A text beside a list becomes a block of it. null: an empty list beside a text says nothing. */
function addBlocks(
  { text: before, blocks }: GrowingMessage,
  text = '',
  more: readonly Json[] = []
): readonly Json[] | null {
  if (blocks === null && more.length === 0 && !before.isEmpty) return null
  return more.reduce(withBlock, [...(blocks ?? textBlocks(String(before))), ...textBlocks(text)])
}

/** A block continues the one before it of its number or, where neither has one, of its id, as LangChain joins them; others follow. */
function withBlock(blocks: Json[], more: Json): Json[] {
  const at = isFields(more) ? blocks.findIndex((one) => isFields(one) && isContinued(one, more)) : -1
  if (at >= 0) return blocks.with(at, grown(blocks[at]!, more))
  return isFields(more) && more.text === '' ? blocks : [...blocks, more]
}

function isContinued(block: JsonObject, more: JsonObject): boolean {
  const index = more.index ?? null
  if (index !== (block.index ?? null)) return false
  if (index === null) return Boolean(more.id) && block.id === more.id
  return !areApart(block.id, more.id) && !areApart(kindOf(block), kindOf(more))
}

/** A delta is of the kind that it grows. */
function kindOf({ type = '' }: JsonObject): Json {
  return String(type).replace(/_delta$/, '')
}

/** A piece may not say its id or its kind. */
function areApart(one: Json | undefined, other: Json | undefined): boolean {
  return Boolean(one && other && one !== other)
}

/** Members of a block that do not grow. */
const FIXED = ['type', 'index', 'created', 'timestamp']

/** Texts and lists grow, numbers add up; where kinds differ, what was there first stays, and of ids and names the newest counts. */
function grown(before: Json, more: Json): Json {
  if (typeof before === 'string' && typeof more === 'string') return before + more
  if (typeof before === 'number' && typeof more === 'number') return before + more
  if (Array.isArray(before) && Array.isArray(more)) return more.reduce(withBlock, before)
  if (!isFields(before) || !isFields(more)) return before ?? more
  const members = Object.entries(more).map(([name, value]): [string, Json] => {
    const known = before[name] ?? null
    if (name === 'id' || name === 'name') return [name, value || known]
    return [name, FIXED.includes(name) ? (known ?? value) : grown(known, value)]
  })
  return { ...before, ...Object.fromEntries(members) }
}

function textBlocks(text: string): Json[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

/** The last id and the first name that came count: some providers repeat them, some with every piece. */
function addCall(calls: readonly GrowingCall[], { index, id, name, args }: CallChunk): readonly GrowingCall[] {
  const at = callAt(calls, index, id || null)
  const known = calls[at]
  const grown: GrowingCall = {
    index,
    id: id || (known?.id ?? null),
    name: known?.name ?? (name || null),
    args: (known?.args ?? emptyText).with(args)
  }
  return known ? calls.with(at, grown) : [...calls, grown]
}

/** Where the call is that a chunk continues; -1: it begins one. */
function callAt(calls: readonly GrowingCall[], index: Json, id: string | null): number {
  // Nearly always its place.
  if (typeof index === 'number' && calls[index]?.index === index) return index
  if (index !== null) return calls.findLastIndex((call) => call.index === index)
  const isSame = (call: GrowingCall) => call.index === null && (id === null || call.id === null || call.id === id)
  return calls.findLastIndex(isSame)
}

function addFields(before: JsonObject, more: JsonObject): JsonObject {
  if (before === NO_FIELDS) return more
  const { additional_kwargs: kwargs, response_metadata: metadata, usage_metadata: usage } = before
  return {
    ...before,
    ...more,
    ...(kwargs !== undefined && { additional_kwargs: merged(kwargs, more.additional_kwargs) }),
    ...(metadata !== undefined && { response_metadata: merged(metadata, more.response_metadata) }),
    ...(usage && { usage_metadata: addUsage(usage, more.usage_metadata) })
  }
}

function merged(before: Json, more: Json | undefined): Json {
  return { ...objectOr(before), ...objectOr(more) }
}

function objectOr(value: Json | undefined): JsonObject {
  return isFields(value) ? value : NO_FIELDS
}

/** The sum of two counts of tokens, detail by detail: a chunk counts what came since the one before. */
export function addUsage(one: Json | undefined, other: Json | undefined): JsonObject {
  const [first, second] = [objectOr(one), objectOr(other)]
  const sums = Object.keys({ ...first, ...second }).map((name) => [name, sumOf(first[name], second[name])] as const)
  return Object.fromEntries(sums)
}

function sumOf(one: Json | undefined, other: Json | undefined): Json {
  const isCount = typeof one === 'number' || typeof other === 'number'
  return isCount ? numberOr(one) + numberOr(other) : addUsage(one, other)
}

function numberOr(value: Json | undefined): number {
  return typeof value === 'number' ? value : 0
}

// --------------------------------------------------------------------------------------------- LangChain's form

/** False: a complete message, from a model that does not stream or from a node. LangGraph writes chunks also as messages with such calls. */
export function isChunk(given: JsonObject): boolean {
  return given.type === 'AIMessageChunk' || Array.isArray(given.tool_call_chunks)
}

/** Its message is complete. */
export function isLastChunk({ chunk_position }: JsonObject): boolean {
  return chunk_position === 'last'
}

/** Reads a chunk as LangChain, and our log, have it. */
export function readChunk(given: JsonObject): Chunk {
  const { content, tool_call_chunks: calls, ...fields } = given
  const { reasoning_content: reasoning } = objectOr(fields.additional_kwargs)
  return {
    ...(typeof content === 'string' && content !== '' && { text: content }),
    ...(Array.isArray(content) && { blocks: content }),
    ...(typeof reasoning === 'string' && { reasoning }),
    ...(Array.isArray(calls) && { calls: calls.filter(isFields).map(readCallChunk) }),
    fields
  }
}

/** The words of a chunk, whether its content is a text or a list of blocks. */
export function textIn({ content }: JsonObject): string {
  if (!Array.isArray(content)) return textOr(content) ?? ''
  return content.map((block) => (isFields(block) ? (textOr(block.text) ?? '') : (textOr(block) ?? ''))).join('')
}

function isFields(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readCallChunk({ index, id, name, args }: JsonObject): CallChunk {
  return { index: index ?? null, id: textOr(id), name: textOr(name), args: textOr(args) ?? '' }
}

function textOr(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null
}

/** The content as messages have it. */
export function contentOf({ text, blocks }: GrowingMessage): string | Json[] {
  return blocks ? [...blocks] : String(text)
}

export function callChunksOf({ calls }: GrowingMessage): JsonObject[] {
  return calls.map(({ index, id, name, args }) => ({
    name,
    args: String(args),
    id,
    ...(index !== null && { index }),
    type: 'tool_call_chunk'
  }))
}

/** Everything so far as one chunk: a reader that gets it and the chunks that follow has the message. */
export function asChunk(message: GrowingMessage): JsonObject {
  const { id, reasoning, calls } = message
  return {
    content: contentOf(message),
    ...(!reasoning.isEmpty && { additional_kwargs: { reasoning_content: String(reasoning) } }),
    ...(calls.length > 0 && { tool_call_chunks: callChunksOf(message) }),
    type: 'AIMessageChunk',
    id
  }
}

/** A call with the text of its arguments. */
export interface CallText {
  readonly id: string | null
  readonly name: string | null
  readonly args: string
}

/** The calls of a growing message. */
export function callTextsOf({ calls }: GrowingMessage): CallText[] {
  return calls.map(({ id, name, args }) => ({ id, name, args: String(args) }))
}
