// Reviews of tool calls, as LangChain's human-in-the-loop middleware asks for them: which calls are meant, and what was decided.
import { objectsIn } from '../base/json.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../base/types.ts'
import { isClientCall } from '../agent/client-context.ts'
import type { Call } from './parts.ts'

interface Review {
  /** null: no open call of this name. */
  readonly call: Pick<Call, 'id' | 'name' | 'args'> | null
  readonly name: string
  readonly args: Json
}

/** What the question asks to be approved, in order; none: it is no review. */
export function reviewsOf({ value }: Interrupt, calls: readonly Pick<Call, 'id' | 'name' | 'args'>[]): Review[] {
  const left = [...calls]
  return requestsIn(value).map(({ name, args = {} }) => {
    const at = left.findIndex((call) => call.name === name)
    const [call = null] = at < 0 ? [] : left.splice(at, 1)
    return { call, name: String(name), args }
  })
}

export function isReview({ value }: Interrupt): boolean {
  return requestsIn(value).length > 0
}

function requestsIn(value: Json): JsonObject[] {
  return isObject(value) ? objectsIn(value.action_requests) : []
}

/** Names one of the calls that a question asks about. */
export function approvalId({ id }: Interrupt, at: number): string {
  return `${id}.${at}`
}

interface Decision {
  readonly approved: boolean
  readonly reason: string | null
}

/** The answer to a review. */
export function decided(decisions: readonly Decision[]): JsonObject {
  return {
    decisions: decisions.map(({ approved, reason }) =>
      approved ? { type: 'approve' } : { type: 'reject', ...(reason !== null && { message: reason }) }
    )
  }
}

/** Words in place of an answer: they are why a review is refused, and the answer to any other question. */
export function answeredWith(question: Interrupt, words: string): Json {
  if (!isReview(question)) return words
  return decided(requestsIn(question.value).map(() => ({ approved: false, reason: words })))
}

/**
 * Answers as a run resumes with them: the answer itself where one thing was asked, else by the ids of questions. What a client's tool
 * has answered is known by the id of its call, whoever reads it.
 * @param questions all that are open; default: those that are answered
 */
export function resumeOf(
  answers: readonly (readonly [Interrupt, Json])[],
  questions: readonly Interrupt[] = answers.map(([question]) => question)
): Json {
  const [first] = answers
  const isAlone = questions.length === 1 && !isClientCall(questions[0]!.value)
  return isAlone ? first![1] : Object.fromEntries(answers.map(([{ id }, answer]) => [id, answer]))
}
