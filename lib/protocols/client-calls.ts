// Calls of tools that a client runs itself: which of an agent's questions are such, and the results that a client brings beside new words.
import { isClientCall } from '../agent/client-context.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../base/types.ts'

/** Ids of the calls among what a run has asked. */
export function clientCallsIn(questions: readonly Interrupt[]): string[] {
  return questions.filter(({ value }) => isClientCall(value)).map(({ id }) => id)
}

/** Questions for the user: those that no tool of the client answers. */
export function userQuestions(questions: readonly Interrupt[]): Interrupt[] {
  return questions.filter(({ value }) => !isClientCall(value))
}

/**
 * The results as messages of a state, in the place of those that say that they are waited for.
 * @param stored messages of the state
 * @param outputs by the ids of calls
 */
export function resultsIn(stored: readonly JsonObject[], outputs: ReadonlyMap<string, Json>): JsonObject[] {
  return stored.flatMap((message): JsonObject[] => {
    const { type, id, tool_call_id: call } = message
    const content = type === 'tool' ? outputs.get(String(call)) : undefined
    if (content === undefined) return []
    return [{ type: 'tool', id: id!, tool_call_id: call!, content, name: nameIn(stored, String(call)) }]
  })
}

function nameIn(messages: readonly JsonObject[], call: string): Json {
  const calls = messages.flatMap(({ tool_calls }) => (Array.isArray(tool_calls) ? tool_calls.filter(isObject) : []))
  return calls.find(({ id }) => id === call)?.name ?? null
}
