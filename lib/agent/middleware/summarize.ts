// Summarises old messages when a conversation gets too long for the model. All messages stay in the state; the summary and how
// far it goes are channels, and the model sees the summary instead of the messages it covers.
import { type Message, textOf } from '../../base/types.ts'
import type { Middleware, MiddlewareContext } from '../middleware.ts'

interface SummarizeOptions {
  /** Number of newest messages that are not summarised. */
  readonly keep_messages: number
  /** Summarise above this number of messages; 0: off. */
  readonly trigger_messages: number
  /** Summarise above about this number of tokens; 0: off. */
  readonly trigger_tokens: number
  readonly model_name: string | null
}

const TAG = 'summarize'
/** The summary, and the id of the last message that it covers. */
const TEXT_CHANNEL = 'summary_text'
const UNTIL_CHANNEL = 'summary_until'
const CHARS_PER_TOKEN = 4
const MESSAGE_CHARS = 4_000
const TIMEOUT_MS = 60_000

const TASK = `Summarise the conversation below for the assistant that has to go on with it and will not see it again. Keep decisions,
names, numbers, file paths, open questions and what the user wants. Answer with the summary alone.`

export function summarizeMiddleware(options: SummarizeOptions): Middleware {
  return {
    tag: TAG,
    async beforeModel(run) {
      const messages = run.messages()
      const covered = coveredBy(run, messages)
      tell(run, covered)
      const fresh = messages.slice(covered)
      if (!isTooLong(fresh, options)) return
      const until = covered + cutOf(fresh, options.keep_messages)
      if (until === covered) return
      const replaced = messages.slice(covered, until)
      const text = await run.ask(TAG, question(run, replaced), options.model_name, TIMEOUT_MS)
      if (text === null || text.trim() === '') return
      await run.update({ [TEXT_CHANNEL]: text, [UNTIL_CHANNEL]: messages[until - 1]!.id })
      await run.summarized(
        text,
        replaced.map(({ id }) => id)
      )
      tell(run, until)
    }
  }
}

function tell(run: MiddlewareContext, covered: number): void {
  run.hide(covered)
  run.instruct(TAG, covered === 0 ? null : `Summary of the conversation so far:\n${summaryOf(run)}`)
}

function summaryOf(run: MiddlewareContext): string {
  const text = run.channel(TEXT_CHANNEL)
  return typeof text === 'string' ? text : ''
}

/** How many messages the summary covers; 0 if its last message is gone (another branch, an edited state). */
function coveredBy(run: MiddlewareContext, messages: readonly Message[]): number {
  const until = run.channel(UNTIL_CHANNEL)
  return typeof until === 'string' ? messages.findIndex(({ id }) => id === until) + 1 : 0
}

function isTooLong(messages: readonly Message[], { trigger_messages, trigger_tokens }: SummarizeOptions): boolean {
  if (trigger_messages > 0 && messages.length > trigger_messages) return true
  if (trigger_tokens === 0) return false
  let chars = 0
  for (const message of messages) chars += lengthOf(message)
  return chars / CHARS_PER_TOKEN > trigger_tokens
}

/**
 * Where to cut: never between a call and its result, which servers refuse. So the rest starts with a human message and is
 * slightly longer than configured, or shorter if a single turn is longer than that.
 */
function cutOf(messages: readonly Message[], keep: number): number {
  const wanted = Math.max(0, messages.length - keep)
  const before = messages.slice(0, wanted + 1).findLastIndex(isHuman)
  if (before > 0) return before
  const after = messages.slice(wanted).findIndex(isHuman)
  return after < 0 ? 0 : wanted + after
}

const isHuman = ({ type }: Message): boolean => type === 'human'

function question(run: MiddlewareContext, replaced: readonly Message[]) {
  const before = summaryOf(run)
  const lines = replaced.map((message) => `${message.type}: ${textOf(message.content).slice(0, MESSAGE_CHARS)}`)
  const said = [...(before === '' ? [] : [`Summary of what came before:\n${before}`]), ...lines].join('\n\n')
  return [
    { role: 'system', content: TASK },
    { role: 'user', content: said }
  ]
}

function lengthOf(message: Message): number {
  const calls = message.type === 'ai' && message.tool_calls.length > 0 ? JSON.stringify(message.tool_calls).length : 0
  return textOf(message.content).length + calls
}
