// The demo agent: what answers when no model is configured. Nothing leaves the machine, and the same words get the same answer.
//
// It is the lead agent over a model of its own, so that a run of it looks like any other. `/demo` in the last message of the
// user steers it; the words after it, up to the end of the line:
//
//   deltas=N size=S      N deltas of S bytes instead of the friendly answer: delta n of size 6 is `w000n `
//   rate=R               R deltas a second (default 30); 0: as fast as the log takes them
//   tool=NAME args={..}  calls the tool first; args, a JSON object, is the last word of its line
//   reasoning            thinks aloud first
//   pause=MS pause=N:MS  silence before the first delta, or before delta N
//   error                fails after what else was asked for
import { type Json, type JsonObject, textOf } from '../types.ts'
import { createAgent } from './lead.ts'
import type { AnswerPiece, Completion, Model, ModelRequest, OnDelta, RawCall } from './model.ts'
import { Models } from './models.ts'
import { Pace } from './pace.ts'
import { AgentError, type ListedAgent, type ModelInfo } from './runtime.ts'
import type { Tool } from './tool.ts'

/** Deltas a second that a person reads along with. */
const HUMAN_RATE = 30
const DEFAULT_SIZE = 6
/** Bounds of what may be asked for: the demo answers whoever can sign in. */
const DELTAS_MAX = 1_000_000
const SIZE_MAX = 65_536
const RATE_MAX = 100_000
const PAUSE_MAX_MS = 600_000
/** Characters of a tool call's arguments in one delta. */
const ARGS_PIECE = 8

const INFO: ModelInfo = {
  name: 'demo',
  model: 'demo',
  display_name: 'Demo',
  description: 'Built in and deterministic: answers without a provider, until a model is configured.',
  supports_thinking: true,
  supports_reasoning_effort: false
}

/** The one model that needs no provider. */
export function demoModels(): Models {
  return new Models([new DemoModel()])
}

export function createDemoAgent({ tools }: { readonly tools: readonly Tool[] }): ListedAgent {
  return createAgent({ tools, models: demoModels() })
}

/** Delta number `n`: `size` bytes as long as n has no more than `size - 2` digits. */
export function demoWord(n: number, size = DEFAULT_SIZE): string {
  return `w${String(n).padStart(size - 2, '0')} `
}

export class DemoModel implements Model {
  readonly info = INFO

  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    request.signal.throwIfAborted()
    const turn = turnOf(request.messages)
    const order = orderIn(turn.said)
    const pace = new Pace(order.rate, request)
    const telling = new Telling(request.messageId, onDelta)
    for (const piece of piecesOf(turn, order)) {
      if (telling.count === order.pause.before) await pace.pause(order.pause.ms)
      const hasSpace = telling.tell(piece)
      if (!hasSpace) await pace.space()
      if (pace.told()) await pace.wait()
    }
    if (order.fails) throw new AgentError('DemoFailure', 'The demo model was asked to fail, and does')
    return telling.completion(request.messages)
  }
}

// ----------------------------------------------------------------------------------------------- the order

/** What the conversation has come to since the user spoke last. */
interface Turn {
  readonly said: string
  /** Result of a tool that was called since. */
  readonly result: string | null
  /** Messages so far: makes ids that are unique in the conversation and yet the same every time. */
  readonly length: number
}

/** What the user wants of the demo. */
interface Order {
  readonly deltas: number | null
  readonly size: number
  readonly rate: number
  readonly tool: { readonly name: string; readonly args: string } | null
  readonly reasons: boolean
  readonly pause: { readonly before: number; readonly ms: number }
  readonly fails: boolean
}

function turnOf(messages: readonly JsonObject[]): Turn {
  const last = messages.findLastIndex(({ role }) => role === 'user')
  const results = messages.slice(last + 1).filter(({ role }) => role === 'tool')
  const result = results.at(-1)
  return { said: contentOf(messages[last]), result: result ? contentOf(result) : null, length: messages.length }
}

function contentOf(message: JsonObject | undefined): string {
  const content: Json | undefined = message?.content
  return typeof content === 'string' || Array.isArray(content) ? textOf(content) : ''
}

function orderIn(said: string): Order {
  const line = /(?:^|\s)\/demo(?:[ \t]([^\n]*))?(?:\n|$)/.exec(said)?.[1] ?? ''
  const [, words = '', args = '{}'] = /^(.*?)(?:\bargs=(.*))?$/.exec(line) ?? []
  const named = (name: string) => new RegExp(`(?:^|\\s)${name}(?:=(\\S*))?(?=\\s|$)`).exec(words)
  const number = (name: string, max: number) => bounded(named(name)?.[1], max)
  const [ms, before] = (named('pause')?.[1] ?? '').split(':').reverse()
  const toolName = named('tool')?.[1]
  return {
    deltas: number('deltas', DELTAS_MAX),
    size: Math.max(3, number('size', SIZE_MAX) ?? DEFAULT_SIZE),
    rate: number('rate', RATE_MAX) ?? HUMAN_RATE,
    tool: toolName ? { name: toolName, args: args.trim() } : null,
    reasons: named('reasoning') !== null,
    pause: { before: bounded(before, DELTAS_MAX) ?? 0, ms: bounded(ms, PAUSE_MAX_MS) ?? 0 },
    fails: named('error') !== null
  }
}

/** A number that a user wrote, cut to its bound; null: it is none. */
function bounded(text: string | undefined, max: number): number | null {
  return text !== undefined && /^\d+$/.test(text) ? Math.min(Number(text), max) : null
}

// ---------------------------------------------------------------------------------------------- the answer

function* piecesOf(turn: Turn, order: Order): Generator<AnswerPiece> {
  if (order.reasons && turn.result === null) {
    for (const reasoning of wordsOf('The user wants to see how thinking looks. It comes before the answer. '))
      yield { reasoning }
  }
  if (order.tool && turn.result === null) {
    yield* callPieces(order.tool, turn)
    return
  }
  if (order.deltas === null) for (const text of wordsOf(friendlyText(turn))) yield { text }
  else for (let n = 0; n < order.deltas; n++) yield { text: demoWord(n, order.size) }
}

function* callPieces(tool: { readonly name: string; readonly args: string }, turn: Turn): Generator<AnswerPiece> {
  yield { toolCall: { index: 0, id: `call_demo_${turn.length}`, name: tool.name, args: '' } }
  for (let at = 0; at < tool.args.length; at += ARGS_PIECE) {
    yield { toolCall: { index: 0, args: tool.args.slice(at, at + ARGS_PIECE) } }
  }
}

function friendlyText({ said, result }: Turn): string {
  if (result !== null) return `The tool answered: ${result}`
  const quote = Array.from(said.trim()).slice(0, 200).join('')
  return [
    'Hello! I am the demo model that Colloquy brings along. No provider is configured, so nothing you write leaves this machine.',
    quote === '' ? 'You said nothing at all.' : `You said: "${quote}"`,
    'Name a model in `colloquy.yaml`, or set `OPENAI_API_KEY`, and a real one answers here.',
    'Until then, try `/demo deltas=200 rate=50`, `/demo tool=current_time`, `/demo reasoning` or `/demo error`.'
  ].join('\n\n')
}

/** The text in pieces of one word with the space after it. */
function wordsOf(text: string): string[] {
  return text.match(/\S+\s?|\s+/g) ?? []
}

/** Tells pieces and remembers them, for the completion. */
class Telling {
  count = 0
  readonly #messageId: string
  readonly #onDelta: OnDelta
  #text = ''
  #reasoning = ''
  #call: RawCall | null = null

  constructor(messageId: string, onDelta: OnDelta) {
    this.#messageId = messageId
    this.#onDelta = onDelta
  }

  tell(piece: AnswerPiece): boolean {
    this.count++
    if (piece.text !== undefined) this.#text += piece.text
    if (piece.reasoning !== undefined) this.#reasoning += piece.reasoning
    if (piece.toolCall) {
      const { id = '', name = '', args } = piece.toolCall
      this.#call = this.#call ? { ...this.#call, args: this.#call.args + args } : { id, name, args }
    }
    return this.#onDelta({ type: 'delta', messageId: this.#messageId, model: INFO.name, ...piece })
  }

  completion(messages: readonly JsonObject[]): Completion {
    // Four characters to a token: about what real models come to.
    const input = Math.ceil(messages.reduce((length, message) => length + contentOf(message).length, 0) / 4)
    return {
      responseId: `demo-${messages.length}`,
      text: this.#text,
      reasoning: this.#reasoning,
      calls: this.#call ? [this.#call] : [],
      finishReason: this.#call ? 'tool_calls' : 'stop',
      usage: { input_tokens: input, output_tokens: this.count, total_tokens: input + this.count }
    }
  }
}
