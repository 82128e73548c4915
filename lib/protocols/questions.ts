// An agent's questions, in frames and in messages, and a run's failure, for the translations of protocols.
import { INTERRUPTED } from '../conversation/calls.ts'
import { questionsIn } from '../conversation/values.ts'
import { BY_CLIENT, isByClient } from '../agent/client-context.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../base/types.ts'
import { dataOf } from '../run/log/frame.ts'
import type { RawFrame } from '../run/log/segment.ts'
import { aboutIn, namedIn } from '../run/log/values-frame.ts'

/** The member of a state or an update that has them. */
export const INTERRUPT = '__interrupt__'

/** Those known, and what is asked beside them: the same list if that is nothing. */
export function withQuestions(known: readonly Interrupt[], asked: Json): readonly Interrupt[] {
  const list = Array.isArray(asked) ? asked.filter(isObject) : []
  const fresh = list.flatMap(({ id, value = null }): Interrupt[] =>
    typeof id === 'string' && !known.some((one) => one.id === id) ? [{ id, value }] : []
  )
  return fresh.length === 0 ? known : [...known, ...fresh]
}

/** Of a values frame. */
export function askedIn(bytes: Buffer): Json {
  const named = namedIn(bytes)
  // Interrupts are JSON.
  return named ? questionsIn(named) : ((aboutIn(bytes)?.interrupts ?? null) as Json)
}

/** Of an update, or a state that replaces frames which are gone. */
export function askedInText(json: string): Json {
  if (!json.includes(`"${INTERRUPT}"`)) return null
  const given: unknown = JSON.parse(json)
  return isObject(given) ? (given[INTERRUPT] ?? null) : null
}

/** Of an error frame. */
export function failureIn({ bytes }: RawFrame): string {
  const given: unknown = JSON.parse(dataOf(bytes))
  const { message, error } = isObject(given) ? given : {}
  return String(message ?? error ?? 'The run failed')
}

/** Of a tool's message: it stands in place of what the user is to answer. */
export function isQuestion({ artifact }: JsonObject): boolean {
  return isObject(artifact) && isObject(artifact.human_input)
}

/**
 * A conversation in which questions are answered that the user has gone on behind: nothing takes their place in the state. His words are
 * the answer, but no tool of a client's has said them.
 */
export function withAnswers(messages: readonly JsonObject[]): readonly JsonObject[] {
  const last = messages.findLastIndex(({ type }) => type === 'human')
  return messages.map((message, at) => {
    if (at > last || !isQuestion(message)) return message
    const { content = '' } = messages.slice(at).find(({ type }) => type === 'human')!
    return isByClient(message)
      ? { ...message, content: INTERRUPTED, artifact: BY_CLIENT, status: 'error' }
      : { ...message, content, artifact: null }
  })
}
