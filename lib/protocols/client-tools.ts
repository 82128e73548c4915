// Tools that a client runs itself: how it names them, who takes them, which of an agent's questions are their calls, what results become.
import { isClientCall } from '../agent/client-context.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../base/types.ts'
import { refusedValue } from '../routes/input.ts'
import type { Services } from '../routes/services.ts'

export const TOOLS_MAX = 128
/** As models take it. */
const NAME = /^[A-Za-z0-9_-]{1,64}$/

/** A tool as the run's context has it. @throws Invalid naming its place in the body */
export function clientToolIn(
  { name, description, parameters }: JsonObject,
  loc: readonly (string | number)[]
): JsonObject {
  if (typeof name !== 'string' || !NAME.test(name))
    throw refusedValue([...loc, 'name'], 'must have letters, digits, _ and -, at most 64')
  return {
    name,
    ...(typeof description === 'string' && { description }),
    ...(isObject(parameters) && { parameters })
  }
}

/** Whether the input of the graph behind an assistant has a member of this name; no agent that is not a graph has any. */
export async function inputNames(
  { states, assistants }: Pick<Services, 'states' | 'assistants'>,
  assistant: string | null,
  user: string
): Promise<(name: string) => boolean> {
  const graph = states.isOfGraphs ? await assistants.resolve(assistant, user) : null
  const schema = graph && (await states.schemas(graph.graphId))?.input_schema
  const known = isObject(schema) && isObject(schema.properties) ? schema.properties : {}
  return (name) => Object.hasOwn(known, name)
}

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
