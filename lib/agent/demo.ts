// The demo model, used when no model is configured. It calls no provider and is deterministic.
//
// The lead agent runs it like any other model; demo-steering.ts is how its user says what it is to do.
import type { JsonObject } from '../base/types.ts'
import {
  type Call,
  contentOf,
  DEFAULT_SIZE,
  READ_MAX,
  type Steering,
  steeringIn,
  type Turn,
  turnOf
} from './demo-steering.ts'
import {
  type AnswerPiece,
  type Completion,
  type Model,
  type ModelRequest,
  Models,
  type OnDelta,
  type RawCall
} from './model.ts'
import { AgentError, type ModelInfo } from './runtime.ts'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** Characters of the user's message that are quoted. */
const QUOTE_MAX = 200
/** Characters of a tool call's arguments in one delta. */
const ARGS_PIECE = 8

const INFO: ModelInfo = {
  name: 'demo',
  model: 'demo',
  display_name: 'Demo',
  description: 'Built in and deterministic: answers without a provider, until a model is configured.',
  supports_thinking: true,
  supports_reasoning_effort: false,
  continuation: 'prefix'
}

/** The demo as the only configured model. */
export function demoModels(): Models {
  return new Models([new DemoModel()])
}

/** Delta number `n`, `size` bytes long if n has at most `size - 2` digits. */
export function demoWord(n: number, size = DEFAULT_SIZE): string {
  return `w${String(n).padStart(size - 2, '0')} `
}

export class DemoModel implements Model {
  readonly info = INFO

  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    request.signal.throwIfAborted()
    const turn = turnOf(request.messages)
    const steering = steeringIn(turn.said)
    const pacer = new Pacer(steering.rate, request)
    const answer = new DemoAnswer(request, onDelta)
    for (const piece of beyond(turn.spoken, piecesOf(turn, steering))) {
      if (answer.count === steering.pause.before) await pacer.pause(steering.pause.ms)
      const hasSpace = answer.tell(piece)
      if (!hasSpace) await pacer.space()
      if (pacer.told()) await pacer.wait()
    }
    if (steering.fails) throw new AgentError('DemoFailure', 'The demo model was asked to fail, and does')
    return answer.completion(request.messages)
  }
}

// ---------------------------------------------------------------------------------------------- the answer

function* piecesOf(turn: Turn, { reasons, calls, deltas, size, fails, parts }: Steering): Generator<AnswerPiece> {
  if (reasons && turn.results.length === 0) for (const reasoning of wordsOf(THOUGHTS)) yield { reasoning }
  const next = callsAfter(calls, turn.results.length)
  if (next) return yield* callPieces(next, turn)
  if (deltas !== null) for (let n = 0; n < deltas; n++) yield { text: demoWord(n, size) }
  else for (const text of wordsOf(textFor(turn, parts, fails))) yield { text }
}

/** What follows behind a text that was said already. */
function* beyond(spoken: string, pieces: Generator<AnswerPiece>): Generator<AnswerPiece> {
  let left = spoken.length
  for (const piece of pieces) {
    const length = piece.text?.length ?? 0
    if (left === 0) yield piece
    else if (length > left) yield { ...piece, text: piece.text!.slice(left) }
    left = Math.max(0, left - length)
  }
}

/** The calls that come after so many results. */
function callsAfter(calls: Steering['calls'], results: number): readonly Call[] | undefined {
  let done = 0
  return calls.find((together) => {
    done += together.length
    return results < done
  })
}

function* callPieces(calls: readonly Call[], turn: Turn): Generator<AnswerPiece> {
  for (const [index, { name, args }] of calls.entries()) {
    const id = `call_demo_${turn.length}${index === 0 ? '' : `_${index}`}`
    yield { toolCall: { index, id, name, args: '' } }
    for (let at = 0; at < args.length; at += ARGS_PIECE)
      yield { toolCall: { index, args: args.slice(at, at + ARGS_PIECE) } }
  }
}

const THOUGHTS =
  'The user wants to see how thinking looks. It comes before the answer, and is folded away once that begins. '

const TABLE = `| What | Where it goes on | Survives a crash |
|---|---|---|
| a closed tab | at the exact frame | yes |
| a cut network | at the exact frame | yes |
| a second device | beside the first, live | yes |`

const CODE = `\`\`\`js
// An agent of your own: agent: { runtime: module, path: ./agent.mjs }
export default async function* (input, signal) {
  yield 'Hello, '
  yield \`this is thread \${input.threadId}.\`
}
\`\`\``

const STORY = `There was once an answer that nobody waited for. Its reader had closed the tab, and the train had gone into the tunnel; it went on
all the same, word after word, because a run does not hang on who is watching. When the reader came back it did not begin again, and
it did not skip a word: it said where it stood, and went on from there.`

const INTRODUCTION = `Hello! I am the demo model that Colloquy brings along. No provider is configured, so nothing you write leaves this machine.`

const INVITATION = `Name a model in \`colloquy.yaml\`, or set \`OPENAI_API_KEY\`, and a real one answers here. Until then, try:

- **show me everything**: reasoning, two tools, a table and code
- **what time is it**, **write a report**, **use your tools**
- **a table**, **some code**, **a long answer**, **think aloud**
- **ask me something**: I wait for your answer
- **fail**: a run that ends in an error`

function textFor({ said, results }: Turn, parts: Steering['parts'], fails: boolean): string {
  if (fails) return 'This answer does not come to its end: the demo model was asked to'
  const told = results.map(({ tool, text }) => resultText(tool, text))
  const asked = parts.map((part) => ({ table: TABLE, code: CODE, long: [STORY, STORY, STORY].join('\n\n') })[part])
  if (told.length + asked.length > 0) return [...told, ...asked].join('\n\n')
  const quote = Array.from(said.slice(0, READ_MAX).trim()).slice(0, QUOTE_MAX).join('')
  return [INTRODUCTION, quote === '' ? 'You said nothing at all.' : `You said: "${quote}"`, INVITATION].join('\n\n')
}

function resultText(tool: string, text: string): string {
  return tool === 'ask_user' ? `Your answer: ${text}` : `The tool answered: ${text}`
}

/** The text in pieces of one word with the space after it. */
function wordsOf(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? []
}

/** Emits pieces and collects them for the completion. */
class DemoAnswer {
  count = 0
  readonly #request: ModelRequest
  readonly #onDelta: OnDelta
  #text = ''
  #reasoning = ''
  readonly #calls: RawCall[] = []

  constructor(request: ModelRequest, onDelta: OnDelta) {
    this.#request = request
    this.#onDelta = onDelta
  }

  tell(piece: AnswerPiece): boolean {
    if (this.count++ === 0) this.#request.onFirst?.()
    if (piece.text !== undefined) this.#text += piece.text
    if (piece.reasoning !== undefined) this.#reasoning += piece.reasoning
    if (piece.toolCall) {
      const { index, id = '', name = '', args } = piece.toolCall
      const call = this.#calls[index]
      this.#calls[index] = call ? { ...call, args: call.args + args } : { id, name, args }
    }
    return this.#onDelta({ type: 'delta', messageId: this.#request.messageId, model: INFO.name, ...piece })
  }

  completion(messages: readonly JsonObject[]): Completion {
    // Four characters per token: about what real models use.
    const input = Math.ceil(messages.reduce((length, message) => length + contentOf(message).length, 0) / 4)
    return {
      responseId: `demo-${messages.length}`,
      text: this.#text,
      reasoning: this.#reasoning,
      calls: this.#calls,
      finishReason: this.#calls.length > 0 ? 'tool_calls' : 'stop',
      usage: { input_tokens: input, output_tokens: this.count, total_tokens: input + this.count }
    }
  }
}

// --------------------------------------------------------------------------------------------------------------- pace

/** Deltas per turn of the event loop, which delays everything else in the process. */
const BURST = 64

class Pacer {
  readonly #rate: number
  readonly #request: ModelRequest
  #begun = performance.now()
  #told = 0

  /** @param rate deltas a second; 0: as fast as the log takes them */
  constructor(rate: number, request: ModelRequest) {
    this.#rate = rate
    this.#request = request
  }

  /** Counts a delta. True: `wait` before the next one. */
  told(): boolean {
    this.#told++
    return this.#told % BURST === 0 || this.#aheadMs() >= 1
  }

  /** Waits until the next delta is due, and at least for one turn of the event loop. */
  async wait(): Promise<void> {
    const aheadMs = this.#aheadMs()
    if (aheadMs >= 1) await this.#sleep(aheadMs)
    else await nextTurn()
    this.#request.signal.throwIfAborted()
  }

  async pause(ms: number): Promise<void> {
    if (ms === 0) return
    await this.#sleep(ms)
    this.#begun += ms
  }

  /** Waits for space in the log; the lost time is not made up for by a burst. */
  async space(): Promise<void> {
    const since = performance.now()
    await this.#request.space?.()
    this.#request.signal.throwIfAborted()
    this.#begun += performance.now() - since
  }

  async #sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#request.signal })
  }

  #aheadMs(): number {
    return this.#rate === 0 ? 0 : this.#begun + (this.#told * 1000) / this.#rate - performance.now()
  }
}
