// A user's memory across threads, six summaries and a list of facts: its form in the API and the file, changes of its facts, and its
// text in the prompt.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'

export interface Memory {
  readonly version: string
  /** ISO time of the last change; '' if there was none. */
  readonly lastUpdated: string
  readonly user: Readonly<Record<UserContext, Context>>
  readonly history: Readonly<Record<HistoryContext, Context>>
  readonly facts: readonly MemoryFact[]
}

export const USER_CONTEXTS = ['workContext', 'personalContext', 'topOfMind'] as const
export const HISTORY_CONTEXTS = ['recentMonths', 'earlierContext', 'longTermBackground'] as const
export type UserContext = (typeof USER_CONTEXTS)[number]
export type HistoryContext = (typeof HISTORY_CONTEXTS)[number]

export interface Context {
  readonly summary: string
  readonly updatedAt: string
}

export interface MemoryFact {
  readonly id: string
  readonly content: string
  readonly category: string
  /** 0 to 1. */
  readonly confidence: number
  readonly createdAt: string
  /** `manual`, or the id of the thread where it was learned. */
  readonly source: string
}

/** What a user may change of a fact. */
export type FactFields = Partial<Pick<MemoryFact, 'content' | 'category' | 'confidence'>>

const VERSION = '1.0'

export function emptyMemory(now = new Date().toISOString()): Memory {
  const context: Context = { summary: '', updatedAt: '' }
  return {
    version: VERSION,
    lastUpdated: now,
    user: { workContext: context, personalContext: context, topOfMind: context },
    history: { recentMonths: context, earlierContext: context, longTermBackground: context },
    facts: []
  }
}

// ---------------------------------------------------------------------------------------------- reading

const text = v.optional(v.string(), '')
const context = v.optional(v.object({ summary: text, updatedAt: text }), {})
const fact = v.object({
  id: v.optional(v.pipe(v.string(), v.minLength(1)), () => factId()),
  content: v.pipe(v.string(), v.trim(), v.minLength(1)),
  category: v.optional(v.string(), 'context'),
  confidence: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1)), 0.5),
  createdAt: text,
  source: v.optional(v.string(), 'manual')
})

/** A memory from a file or an import: missing members are empty, unknown ones are dropped. */
export const MemorySchema = v.object({
  version: v.optional(v.string(), VERSION),
  lastUpdated: text,
  user: v.optional(v.object({ workContext: context, personalContext: context, topOfMind: context }), {}),
  history: v.optional(v.object({ recentMonths: context, earlierContext: context, longTermBackground: context }), {}),
  facts: v.optional(v.array(fact), [])
})

/** @returns null: not a memory */
export function parseMemory(json: string): Memory | null {
  try {
    const parsed = v.safeParse(MemorySchema, JSON.parse(json))
    return parsed.success ? parsed.output : null
  } catch {
    return null
  }
}

// --------------------------------------------------------------------------------------------- changing

/** Adds a fact. Above `max`, the least confident fact is dropped; among equals, the oldest. */
export function withFact(
  memory: Memory,
  added: Omit<MemoryFact, 'id' | 'createdAt'>,
  max: number,
  now: string
): Memory {
  const facts = [...memory.facts, { id: factId(), ...added, createdAt: now }]
  return { ...memory, lastUpdated: now, facts: capped(facts, max) }
}

/** @returns null: no such fact */
export function withChangedFact(memory: Memory, id: string, fields: FactFields, now: string): Memory | null {
  if (!memory.facts.some((one) => one.id === id)) return null
  const facts = memory.facts.map((one) => (one.id === id ? { ...one, ...fields } : one))
  return { ...memory, lastUpdated: now, facts }
}

/** @returns null: no such fact */
export function withoutFact(memory: Memory, id: string, now: string): Memory | null {
  const facts = memory.facts.filter((one) => one.id !== id)
  return facts.length === memory.facts.length ? null : { ...memory, lastUpdated: now, facts }
}

/** Without a word of a deleted thread: what was learned there stays. @returns null: nothing was */
export function withoutSource(memory: Memory, threadId: string): Memory | null {
  if (!memory.facts.some(({ source }) => source === threadId)) return null
  const facts = memory.facts.map((one) => (one.source === threadId ? { ...one, source: 'manual' } : one))
  return { ...memory, facts }
}

/** The `max` most confident facts, in their order. */
export function capped(facts: readonly MemoryFact[], max: number): readonly MemoryFact[] {
  if (facts.length <= max) return facts
  const ranked = facts
    .map((one, at) => ({ one, at }))
    .sort((a, b) => b.one.confidence - a.one.confidence || b.at - a.at)
  const kept = new Set(ranked.slice(0, max).map(({ one }) => one))
  return facts.filter((one) => kept.has(one))
}

export function factId(): string {
  return `fact_${randomUUID().slice(0, 8)}`
}

// ------------------- The memory's part of the prompt: summaries, then facts by confidence, within a token budget

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
