// The demo model, used when no model is configured. It calls no provider and is deterministic.
//
// The lead agent runs it like any other model. Plain words steer it (PLAIN below, and the table in README.md), or `/demo` in the
// user's last message, with these words up to the end of the line:
//
//   deltas=N size=S      N deltas of S bytes instead of the friendly answer: delta n of size 6 is `w000n `
//   rate=R               R deltas a second (default 30); 0: as fast as the log takes them
//   tool=NAME args={..}  calls the tool first; args, a JSON object, is the last word of its line
//   reasoning            thinks aloud first
//   pause=MS pause=N:MS  silence before the first delta, or before delta N
//   error                fails after what else was asked for
import { type Json, type JsonObject, isObject, textOf } from '../base/types.ts'
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

/** Deltas per second: a comfortable reading speed. */
const HUMAN_RATE = 30
const DEFAULT_SIZE = 6
/** Limits, because every user can use the demo. */
const DELTAS_MAX = 1_000_000
const SIZE_MAX = 65_536
const RATE_MAX = 100_000
const PAUSE_MAX_MS = 600_000
/** Characters of the user's message that are searched for plain words, and quoted. */
const READ_MAX = 2_000
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

// -------------------------------------------------------------------------------------------- what is asked for

/** The conversation since the user's last message. */
interface Turn {
  readonly said: string
  /** Tool results since then. */
  readonly results: readonly { readonly tool: string; readonly text: string }[]
  /** What the answer has said already, if it is to be continued. */
  readonly spoken: string
  /** Number of messages so far, for ids that are unique in the conversation but reproducible. */
  readonly length: number
}

interface Call {
  readonly name: string
  readonly args: string
}

/** Instructions to the demo. */
interface Steering {
  /** null: an answer in words. */
  readonly deltas: number | null
  readonly size: number
  readonly rate: number
  /** Tools to call first, one list after the other. */
  readonly calls: readonly (readonly Call[])[]
  readonly reasons: boolean
  readonly pause: { readonly before: number; readonly ms: number }
  readonly fails: boolean
  /** Parts of the answer; none: the friendly one. */
  readonly parts: readonly ('table' | 'code' | 'long')[]
}

function turnOf(messages: readonly JsonObject[]): Turn {
  const last = messages.findLastIndex(({ role }) => role === 'user')
  const since = messages.slice(last + 1)
  const names = new Map(since.flatMap(callsIn))
  const results = since
    .filter(({ role }) => role === 'tool')
    .map((message) => ({ tool: names.get(String(message.tool_call_id)) ?? '', text: contentOf(message) }))
  const end = messages.at(-1)
  const spoken = end?.role === 'assistant' && !end.tool_calls ? contentOf(end) : ''
  return { said: contentOf(messages[last]), results, spoken, length: messages.length }
}

/** Ids and names of the tools that a message calls. */
function callsIn({ tool_calls }: JsonObject): [string, string][] {
  const calls = Array.isArray(tool_calls) ? tool_calls.filter(isObject) : []
  return calls.map((call) => [String(call.id), isObject(call.function) ? String(call.function.name) : ''])
}

function contentOf(message: JsonObject | undefined): string {
  const content: Json | undefined = message?.content
  return typeof content === 'string' || Array.isArray(content) ? textOf(content) : ''
}

function steeringIn(said: string): Steering {
  return commanded(said) ?? plain(said)
}

const TIME: Call = { name: 'current_time', args: '{}' }
const REPORT: Call = {
  name: 'write_file',
  args: JSON.stringify({ path: 'report.md', content: '# Report\n\nWritten by the demo model.\n' })
}
const QUESTION: Call = {
  name: 'ask_user',
  args: JSON.stringify({ question: 'Tea or coffee?', options: ['Tea', 'Coffee'] })
}

/** The plain words by effect; all effects that occur are combined. */
const PLAIN = {
  think: ['think', 'thinking', 'reasoning'],
  time: ['what time', 'tools', 'everything'],
  file: ['write a file', 'write a report', 'tools', 'everything'],
  table: ['table', 'everything'],
  code: ['code', 'everything'],
  long: ['long answer', 'long story'],
  ask: ['ask me'],
  fail: ['fail']
} as const

function plain(said: string): Steering {
  // Anything but letters becomes one space, so that words are found without a regular expression.
  const words = ` ${said
    .slice(0, READ_MAX)
    .toLowerCase()
    .split(/[^a-z]+/)
    .join(' ')} `
  const wants = (what: keyof typeof PLAIN) => PLAIN[what].some((word) => words.includes(` ${word} `))
  const tools = [...(wants('time') ? [TIME] : []), ...(wants('file') ? [REPORT] : [])]
  return {
    deltas: null,
    size: DEFAULT_SIZE,
    rate: HUMAN_RATE,
    calls: [...(tools.length > 0 ? [tools] : []), ...(wants('ask') ? [[QUESTION]] : [])],
    reasons: wants('think') || words.includes(' everything '),
    pause: { before: 0, ms: 0 },
    fails: wants('fail'),
    parts: (['table', 'code', 'long'] as const).filter(wants)
  }
}

/** What a line with `/demo` in it says; null: there is none. */
function commanded(said: string): Steering | null {
  const line = commandIn(said)
  if (line === null) return null
  const [words = '', args = '{}'] = cutAt(line, 'args=')
  const given = new Map(
    words.split(/\s+/).map((word): [string, string] => [cutAt(word, '=')[0]!, cutAt(word, '=')[1] ?? ''])
  )
  const number = (name: string, max: number) => bounded(given.get(name), max)
  const [ms, before] = (given.get('pause') ?? '').split(':').reverse()
  const tool = given.get('tool')
  return {
    deltas: number('deltas', DELTAS_MAX),
    size: Math.max(3, number('size', SIZE_MAX) ?? DEFAULT_SIZE),
    rate: number('rate', RATE_MAX) ?? HUMAN_RATE,
    calls: tool ? [[{ name: tool, args: args.trim() }]] : [],
    reasons: given.has('reasoning'),
    pause: { before: bounded(before, DELTAS_MAX) ?? 0, ms: bounded(ms, PAUSE_MAX_MS) ?? 0 },
    fails: given.has('error'),
    parts: []
  }
}

/** The rest of the first line with the word `/demo`. */
function commandIn(said: string): string | null {
  for (let at = said.indexOf('/demo'); at >= 0; at = said.indexOf('/demo', at + 1)) {
    const [before, after] = [said[at - 1] ?? ' ', said[at + 5] ?? ' ']
    if (before.trim() !== '' || after.trim() !== '') continue
    const end = said.indexOf('\n', at)
    return end < 0 ? said.slice(at + 5) : said.slice(at + 5, end)
  }
  return null
}

/** The parts before and after a mark, or the whole text. */
function cutAt(text: string, mark: string): string[] {
  const at = text.indexOf(mark)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + mark.length)]
}

/** Parses a number, clamped to its limit; null: not a number. */
function bounded(text: string | undefined, max: number): number | null {
  return text !== undefined && /^\d+$/.test(text) ? Math.min(Number(text), max) : null
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
