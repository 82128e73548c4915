// The memory's part of the prompt: summaries, then facts by confidence, within a token budget.
import { HISTORY_CONTEXTS, type Memory, USER_CONTEXTS } from './memory.ts'

const LABELS = {
  workContext: 'Work',
  personalContext: 'Personal',
  topOfMind: 'Top of mind',
  recentMonths: 'Recent months',
  earlierContext: 'Earlier',
  longTermBackground: 'Background'
} as const

const HEAD =
  'What is known about the user from earlier conversations. It may be out of date; the conversation itself counts more.'

/** A low estimate for most languages, so that the budget is an upper bound. */
const CHARS_PER_TOKEN = 3

/** @returns null: nothing fits, or there is nothing */
export function memoryPrompt(memory: Memory, maxTokens: number): string | null {
  const lines = linesOf(memory)
  if (lines.length === 0) return null
  let left = maxTokens * CHARS_PER_TOKEN - HEAD.length
  const kept: string[] = []
  for (const line of lines) {
    left -= line.length + 1
    if (left < 0) break
    kept.push(line)
  }
  return kept.length === 0 ? null : [HEAD, ...kept].join('\n')
}

function linesOf({ user, history, facts }: Memory): string[] {
  const contexts = [
    ...USER_CONTEXTS.map((name) => ({ name, ...user[name] })),
    ...HISTORY_CONTEXTS.map((name) => ({ name, ...history[name] }))
  ]
  const surest = [...facts].sort((a, b) => b.confidence - a.confidence)
  return [
    ...contexts
      .filter(({ summary }) => summary !== '')
      .map(({ name, summary }) => `${LABELS[name]}: ${oneLine(summary)}`),
    ...surest.map(({ category, content }) => `- [${oneLine(category)}] ${oneLine(content)}`)
  ]
}

// A fact with several lines could pass for several facts or an instruction.
function oneLine(text: string): string {
  return text.replace(/\s+/gu, ' ').trim()
}
