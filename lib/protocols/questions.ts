// What the frames of a run say of its questions and its failure, for the translations of protocols.
import { questionsIn } from '../conversation/values.ts'
import { type Interrupt, isObject, type Json } from '../base/types.ts'
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
