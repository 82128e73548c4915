// The messages one run has in progress: an agent's deltas, folded into the messages they become, and shown as frames.
import type { Delta, HalfAnswer } from '../../agent/runtime.ts'
import { brokenOff, finishCall } from '../../conversation/calls.ts'
import {
  asChunk,
  begun,
  callTextsOf,
  type Chunk,
  ended,
  fold,
  GROWN,
  type GrowingMessage
} from '../../conversation/chunk.ts'
import { cutText, DeltaEncoder, shortChunk, type Shown } from '../../conversation/wire.ts'
import type { AiMessage, JsonObject, UsageMetadata } from '../../base/types.ts'
import { fits, Kind } from './frame.ts'
import type { RunLog } from './run-log.ts'

interface Live {
  readonly message: GrowingMessage
  readonly model: string
  /** What its graph has said of it last. */
  readonly metadata: JsonObject | undefined
}

/** Bytes around the data of a frame: its event, its position. */
const AROUND_BYTES = 256
/** Deltas smaller than this are not split. */
const TEXT_BYTES_MIN = 256

/** An agent may write several at a time. */
export class LiveMessages {
  readonly #encoder = new DeltaEncoder()
  readonly #live = new Map<string, Live>()

  /** Adds a delta to its message. Returns what it shows; null: nothing. */
  add(delta: Delta): Shown | null {
    const { messageId, model, text, reasoning, toolCall, metadata } = delta
    const { [GROWN]: grown } = delta
    const message = grown ?? this.fold(messageId, model, toolCall ? { ...delta, calls: [toolCall] } : delta, metadata)
    if (grown) this.#live.set(messageId, { message: grown, model, metadata })
    const args = toolCall && message.calls.find(({ index }) => index === toolCall.index)?.args.added
    return shownOf(delta, text && message.text.added, reasoning && message.reasoning.added, args)
  }

  /** Adds a chunk to its message. */
  fold(id: string, model: string, chunk: Chunk, metadata?: JsonObject): GrowingMessage {
    const known = this.#live.get(id)
    const message = fold(known?.message ?? begun(id), chunk)
    this.#live.set(id, { message, model: known?.model ?? model, metadata: metadata ?? known?.metadata })
    return message
  }

  /** The data of the frame that shows it. */
  encode(id: string, shown: Shown): string {
    return this.#encoder.json(id, shown)
  }

  /** Shows it as a frame of the log, or as several, where that of one would be too large. */
  appendTo(log: RunLog, id: string, shown: Shown | null): void {
    if (shown === null) return
    const json = this.#encoder.json(id, shown)
    if (fits(json, log.eventBytes)) log.appendWhole(Kind.messages, 'messages', json)
    else
      for (const part of this.split(id, shown, log.eventBytes))
        log.append(Kind.messages, 'messages', part, shortChunk({ id }))
  }

  /** The data of several frames, where that of one would be larger than `max` bytes: only the first has names and ids. */
  split(id: string, shown: Shown, max: number): string[] {
    const { text, reasoning, toolCall, metadata } = shown
    const bare = { reasoning: ' ', metadata, ...(toolCall && { toolCall: { ...toolCall, args: '' } }) }
    const left = max - Buffer.byteLength(this.encode(id, bare)) - AROUND_BYTES
    // Its names alone are too large: the log cuts it.
    if (left < TEXT_BYTES_MIN) return [this.encode(id, shown)]
    const parts: Shown[] = [
      ...pieces(reasoning, left).map((piece) => ({ reasoning: piece })),
      ...pieces(text, left).map((piece) => ({ text: piece })),
      ...pieces(toolCall?.args, left).map((args, at) => ({
        toolCall: at === 0 ? { ...toolCall!, args } : { index: toolCall!.index, args }
      }))
    ]
    return parts.map((part) => this.encode(id, { ...part, metadata }))
  }

  /** The message is complete. Returns the text that was held back until now; null: none was. */
  complete(id: string): Shown | null {
    const live = this.#live.get(id)
    if (!live) return null
    this.#live.delete(id)
    const { text, reasoning } = ended(live.message)
    if (text === live.message.text && reasoning === live.message.reasoning) return null
    return {
      text: text === live.message.text ? undefined : text.added,
      reasoning: reasoning === live.message.reasoning ? undefined : reasoning.added,
      metadata: live.metadata
    }
  }

  /** Nothing more comes of it, and nothing of it is kept. */
  drop(id: string): void {
    this.#live.delete(id)
  }

  /**
   * Another attempt goes on. Of the last message its text stays, with what was thought before it; calls in progress, thoughts without a
   * text, and all other messages are dropped. `aside`: ids of messages that join no conversation.
   */
  keepHalf(aside: ReadonlySet<string>): { readonly half: HalfAnswer | null; readonly hasDropped: boolean } {
    const all = [...this.#live]
    this.#live.clear()
    const [id, last] = all.findLast(([one]) => !aside.has(one)) ?? []
    // What reads the log takes a call that is whole for one.
    if (!id || !last || last.message.text.isEmpty || last.message.blocks || hasWholeCall(last.message))
      return { half: null, hasDropped: all.length > 0 }
    const { calls } = last.message
    const [text, reasoning] = [String(last.message.text), String(last.message.reasoning)]
    this.#live.set(id, { ...last, message: fold(begun(id), { text, reasoning }) })
    const numbers = calls.map(({ index }, at) => (typeof index === 'number' ? index : at))
    const half = { messageId: id, text, reasoning, calls: Math.max(-1, ...numbers) + 1 }
    return { half, hasDropped: all.length > 1 }
  }

  /** Messages in progress, each as one chunk. */
  chunks(): JsonObject[] {
    return [...this.#live.values()].map(({ message }) => asChunk(message))
  }

  /** Closes all: each message as far as it came, if it has any content, and its usage. */
  breakOff(finishReason: string): BrokenOff[] {
    const broken = [...this.#live.values()].map(({ message, model }) => ({
      message: brokenOff(message, model, finishReason),
      model,
      usage: message.usage
    }))
    this.#live.clear()
    return broken
  }
}

function hasWholeCall(message: GrowingMessage): boolean {
  return callTextsOf(message).some((call) => finishCall(call, true).type === 'tool_call')
}

/** `message` null: nothing of it had come. */
interface BrokenOff {
  readonly message: AiMessage | null
  readonly model: string
  readonly usage: UsageMetadata | null
}

/** What a delta shows, with whole characters only: nearly always itself. */
function shownOf(delta: Delta, text?: string, reasoning?: string, args?: string): Shown | null {
  const { toolCall } = delta
  // Usage is reported when a message is complete.
  if (delta.text === undefined && delta.reasoning === undefined && !toolCall) return null
  if (text === delta.text && reasoning === delta.reasoning && args === toolCall?.args) return delta
  if (!text && !reasoning && !toolCall) return null
  return {
    text: text || undefined,
    reasoning: reasoning || undefined,
    toolCall: toolCall && { ...toolCall, args: args ?? '' },
    metadata: delta.metadata
  }
}

/** Splits a text into pieces of at most `max` bytes of JSON. */
function pieces(text: string | undefined, max: number): string[] {
  const found: string[] = []
  for (let rest = text ?? ''; rest !== ''; rest = rest.slice(found.at(-1)!.length)) found.push(cutText(rest, max))
  return found
}
