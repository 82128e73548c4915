// A summary of a conversation's old messages: where it ends, what the model is asked for, and the channels that keep it. All messages
// stay in the state; the model sees the summary instead of those it covers.
import { type Json, type JsonObject, type Message, textOf } from '../base/types.ts'

/** Channel of the summary. */
export const SUMMARY_TEXT = 'summary_text'
/** Channel of the id of the last message that it covers. */
export const SUMMARY_UNTIL = 'summary_until'
const MESSAGE_CHARS = 4_000

const TASK = `Summarise the conversation below for the assistant that has to go on with it and will not see it again. Keep decisions,
names, numbers, file paths, open questions and what the user wants. Answer with the summary alone.`

interface SummaryPlan {
  /** Number of messages that the new summary covers, from the first. */
  readonly until: number
  /** Of these, those that no summary covers yet. */
  readonly replaced: readonly Message[]
  readonly question: readonly JsonObject[]
}

/** How many messages a summary covers; 0 if its last message is gone (another branch, an edited state). */
export function coveredBy(until: Json | undefined, messages: readonly Message[]): number {
  return typeof until === 'string' ? messages.findIndex(({ id }) => id === until) + 1 : 0
}

/**
 * @param covered messages that the summary so far covers
 * @param keep newest messages that are not summarised
 * @param summary the summary so far
 * @returns null: there are no more messages than that
 */
export function summaryPlan(
  messages: readonly Message[],
  covered: number,
  keep: number,
  summary: Json | undefined
): SummaryPlan | null {
  const until = covered + cutOf(messages.slice(covered), keep)
  if (until === covered) return null
  const replaced = messages.slice(covered, until)
  return { until, replaced, question: question(typeof summary === 'string' ? summary : '', replaced) }
}

/**
 * Where to cut: never between a call and its result, which servers refuse. So the rest starts with a human message and is
 * slightly longer than configured, or shorter if a single turn is longer than that.
 */
function cutOf(messages: readonly Message[], keep: number): number {
  const wanted = messages.length - keep
  if (wanted <= 0) return 0
  const before = messages.slice(0, wanted + 1).findLastIndex(isHuman)
  if (before > 0) return before
  const after = messages.slice(wanted).findIndex(isHuman)
  return after < 0 ? 0 : wanted + after
}

const isHuman = ({ type }: Message): boolean => type === 'human'

function question(before: string, replaced: readonly Message[]): readonly JsonObject[] {
  const lines = replaced.map((message) => `${message.type}: ${textOf(message.content).slice(0, MESSAGE_CHARS)}`)
  const content = [...(before === '' ? [] : [`Summary of what came before:\n${before}`]), ...lines].join('\n\n')
  return [
    { role: 'system', content: TASK },
    { role: 'user', content }
  ]
}

/** Characters of a message that a model reads. */
export function lengthOf(message: Message): number {
  const calls = message.type === 'ai' && message.tool_calls.length > 0 ? JSON.stringify(message.tool_calls).length : 0
  return textOf(message.content).length + calls
}
