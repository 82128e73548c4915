// Mode `messages`: whole messages, as far as they have come, made of the deltas in the log while they are delivered. Nothing
// of it is stored. One a joiner, because what it has to say depends on where the joiner came in.
import type { Json, JsonObject } from '../types.ts'
import { type Filter, Kind, bit } from './filter.ts'
import type { RawFrame } from './frames.ts'
import { frameText } from './sse.ts'

/** A message as clients of this mode see it: its fields so far. */
type Accumulated = JsonObject

const DATA = /\ndata: (.*)\n/

/** Text grows by what is added; lists of blocks grow by blocks. */
function addContent(before: Json | undefined, piece: Json | undefined): Json {
  if (piece === undefined) return before ?? ''
  if (typeof before === 'string' && typeof piece === 'string') return before + piece
  if (Array.isArray(before) && Array.isArray(piece)) return [...before, ...piece]
  return before === undefined || before === '' ? piece : before
}

function addToolCallChunks(before: Json | undefined, pieces: Json | undefined): Json {
  const chunks = Array.isArray(before) ? (before as JsonObject[]).map((chunk) => ({ ...chunk })) : []
  // Chunks in the log are objects: this process wrote them.
  for (const piece of (Array.isArray(pieces) ? pieces : []) as JsonObject[]) {
    const known = chunks.find((chunk) => chunk.index === piece.index)
    if (known) known.args = `${known.args ?? ''}${piece.args ?? ''}`
    else chunks.push({ ...piece })
  }
  return chunks
}

/** Reasoning comes in pieces as the text does. */
function addKwargs(before: Json | undefined, piece: Json): Json {
  if (!isObject(before) || !isObject(piece)) return piece
  const [was, more] = [before.reasoning_content, piece.reasoning_content]
  return {
    ...before,
    ...piece,
    ...(typeof was === 'string' && typeof more === 'string' && { reasoning_content: was + more })
  }
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function add(before: Accumulated | undefined, piece: Accumulated): Accumulated {
  if (!before) return piece
  return {
    ...before,
    ...piece,
    content: addContent(before.content, piece.content),
    ...(piece.additional_kwargs !== undefined && {
      additional_kwargs: addKwargs(before.additional_kwargs, piece.additional_kwargs)
    }),
    tool_call_chunks: addToolCallChunks(before.tool_call_chunks, piece.tool_call_chunks)
  }
}

export class Accumulator {
  readonly #filter: Filter
  /** Frames below were seen by the joiner before: they are folded, not shown. */
  readonly #from: number
  #message: Accumulated | undefined
  /** The frame whose position the next partial carries; null: nothing new to show. */
  #last: RawFrame | null = null
  readonly #introduced = new Set<string>()
  #out: Buffer[] = []

  constructor(filter: Filter, from: number) {
    this.#filter = filter
    this.#from = from
  }

  /** Takes the next frame of the log. `values` is the JSON of the state of a values frame the filter takes. */
  take(frame: RawFrame, values: string | null): void {
    if (frame.kind === Kind.messages) return this.#fold(frame)
    this.#partial()
    if (frame.n < this.#from || (this.#filter.mask & bit(frame.kind)) === 0) return
    this.#out.push(
      frame.kind === Kind.values ? Buffer.from(frameText('values', values ?? '{}', frame.epoch, frame.n)) : frame.bytes
    )
  }

  /** What is to be sent for the frames taken since the last flush. */
  flush(): Buffer {
    this.#partial()
    const bytes = Buffer.concat(this.#out)
    this.#out = []
    return bytes
  }

  #fold(frame: RawFrame): void {
    const data = DATA.exec(frame.bytes.toString('utf8'))?.[1]
    if (data === undefined) return
    // A messages frame holds [message or chunk, metadata]: this process wrote it.
    const [piece, metadata] = JSON.parse(data) as [Accumulated, JsonObject]
    const id = String(piece.id)
    if (this.#message && this.#message.id !== piece.id) this.#partial()
    this.#introduce(frame, id, metadata)
    this.#message = add(this.#message?.id === piece.id ? this.#message : undefined, piece)
    this.#last = frame
    if (piece.type !== 'AIMessageChunk' || piece.chunk_position === 'last') this.#complete(frame)
  }

  #introduce(frame: RawFrame, id: string, metadata: JsonObject): void {
    if (this.#introduced.has(id)) return
    this.#introduced.add(id)
    // Without an id: who is cut after it comes back by the frame before, and misses nothing of this one.
    if (frame.n >= this.#from)
      this.#out.push(Buffer.from(`event: messages/metadata\ndata: ${JSON.stringify({ [id]: { metadata } })}\n\n`))
  }

  #partial(): void {
    if (!this.#last || !this.#message) return
    this.#show(this.#last, 'messages/partial', [asMessage(this.#message)])
    this.#last = null
  }

  #complete(frame: RawFrame): void {
    this.#show(frame, 'messages/complete', [asMessage(this.#message!)])
    this.#message = undefined
    this.#last = null
  }

  #show(frame: RawFrame, event: string, data: Json): void {
    if (frame.n < this.#from) return
    this.#out.push(Buffer.from(frameText(event, JSON.stringify(data), frame.epoch, frame.n)))
  }
}

/** Clients of this mode know whole messages only. */
function asMessage({ chunk_position: _, ...message }: Accumulated): Accumulated {
  return message.type === 'AIMessageChunk' ? { ...message, type: 'ai' } : message
}
