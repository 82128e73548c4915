// What the user asks of the demo model: plain words (PLAIN below, and the table in README.md), or `/demo` in the last message, with these
// words up to the end of the line:
//
//   deltas=N size=S      N deltas of S bytes instead of the friendly answer: delta n of size 6 is `w000n `
//   rate=R               R deltas a second (default 30); 0: as fast as the log takes them
//   tool=NAME args={..}  calls the tool first; args, a JSON object, is the last word of its line
//   reasoning            thinks aloud first
//   pause=MS pause=N:MS  silence before the first delta, or before delta N
//   error                fails after what else was asked for
import { type Json, type JsonObject, isObject, textOf } from '../base/types.ts'

/** Deltas per second: a comfortable reading speed. */
const HUMAN_RATE = 30
export const DEFAULT_SIZE = 6
/** Limits, because every user can use the demo. */
const DELTAS_MAX = 1_000_000
const SIZE_MAX = 65_536
const RATE_MAX = 100_000
const PAUSE_MAX_MS = 600_000
/** Characters of the user's message that are searched for plain words, and may be quoted. */
export const READ_MAX = 2_000

/** The conversation since the user's last message. */
export interface Turn {
  readonly said: string
  /** Tool results since then. */
  readonly results: readonly { readonly tool: string; readonly text: string }[]
  /** What the answer has said already, if it is to be continued. */
  readonly spoken: string
  /** Number of messages so far, for ids that are unique in the conversation but reproducible. */
  readonly length: number
}

export interface Call {
  readonly name: string
  readonly args: string
}

/** Instructions to the demo. */
export interface Steering {
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

export function turnOf(messages: readonly JsonObject[]): Turn {
  const last = messages.findLastIndex(isUserMessage)
  const since = messages.slice(last + 1)
  const names = new Map(since.flatMap(callsIn))
  const results = since
    .filter(({ role }) => role === 'tool')
    .map((message) => ({ tool: names.get(String(message.tool_call_id)) ?? '', text: contentOf(message) }))
  const end = messages.at(-1)
  const spoken = end?.role === 'assistant' && !end.tool_calls ? contentOf(end) : ''
  return { said: contentOf(messages[last]), results, spoken, length: messages.length }
}

/** Its user has written it: what tools have returned besides texts is shown behind their results, below the name of each. */
function isUserMessage({ role, content }: JsonObject): boolean {
  const [first] = Array.isArray(content) ? content : []
  return role === 'user' && !(isObject(first) && /^[\w-]+:$/.test(String(first.text)))
}

/** Ids and names of the tools that a message calls. */
function callsIn({ tool_calls }: JsonObject): [string, string][] {
  const calls = Array.isArray(tool_calls) ? tool_calls.filter(isObject) : []
  return calls.map((call) => [String(call.id), isObject(call.function) ? String(call.function.name) : ''])
}

export function contentOf(message: JsonObject | undefined): string {
  const content: Json | undefined = message?.content
  return typeof content === 'string' || Array.isArray(content) ? textOf(content) : ''
}

export function steeringIn(said: string): Steering {
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
