// Summarises old messages when a conversation gets too long for the model (summary.ts).
import type { Message } from '../../base/types.ts'
import type { Middleware, MiddlewareContext } from '../middleware.ts'
import { coveredBy, lengthOf, SUMMARY_TEXT, SUMMARY_UNTIL, summaryPlan } from '../summary.ts'

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
const CHARS_PER_TOKEN = 4
const TIMEOUT_MS = 60_000

export function summarizeMiddleware(options: SummarizeOptions): Middleware {
  return {
    tag: TAG,
    async beforeModel(run) {
      const messages = run.messages()
      const covered = coveredBy(run.channel(SUMMARY_UNTIL), messages)
      show(run, covered)
      if (!isTooLong(messages.slice(covered), options)) return
      const plan = summaryPlan(messages, covered, options.keep_messages, run.channel(SUMMARY_TEXT))
      if (plan === null) return
      const text = await run.ask(TAG, plan.question, options.model_name, TIMEOUT_MS)
      if (text === null || text.trim() === '') return
      await run.update({ [SUMMARY_TEXT]: text, [SUMMARY_UNTIL]: messages[plan.until - 1]!.id })
      await run.summarized(
        text,
        plan.replaced.map(({ id }) => id)
      )
      show(run, plan.until)
    }
  }
}

/** Shows the model the summary in place of the messages it covers. */
function show(run: MiddlewareContext, covered: number): void {
  const text = run.channel(SUMMARY_TEXT)
  run.hide(covered)
  run.instruct(
    TAG,
    covered === 0 ? null : `Summary of the conversation so far:\n${typeof text === 'string' ? text : ''}`
  )
}

function isTooLong(messages: readonly Message[], { trigger_messages, trigger_tokens }: SummarizeOptions): boolean {
  if (trigger_messages > 0 && messages.length > trigger_messages) return true
  if (trigger_tokens === 0) return false
  let chars = 0
  for (const message of messages) chars += lengthOf(message)
  return chars / CHARS_PER_TOKEN > trigger_tokens
}
