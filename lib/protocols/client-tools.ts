// Tools that a client runs itself: how it names them, who takes them, which of an agent's questions are their calls, what results become.
import {
  artifactOf,
  type ClientResult,
  CLIENT_INSTRUCTIONS,
  CLIENT_TOOLS,
  clientToolNames,
  isByClient,
  isClientCall
} from '../agent/client-context.ts'
import { objectsIn } from '../base/json.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../base/types.ts'
import { refusedValue } from '../routes/input.ts'
import type { Services } from '../routes/services.ts'

export const TOOLS_MAX = 128
/** As models take it. */
const NAME = /^[A-Za-z0-9_-]{1,64}$/

/** What a client gives an agent for a run, as its context has it. */
export function clientContext(tools: readonly JsonObject[], instructions: string): JsonObject {
  return {
    ...(tools.length > 0 && { [CLIENT_TOOLS]: [...tools] }),
    ...(instructions !== '' && { [CLIENT_INSTRUCTIONS]: instructions })
  }
}

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
export function clientCallsAsked(questions: readonly Interrupt[]): string[] {
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
export function resultsIn(stored: readonly JsonObject[], outputs: ReadonlyMap<string, ClientResult>): JsonObject[] {
  return stored.flatMap((message): JsonObject[] => {
    const { type, id, tool_call_id: call } = message
    const result = type === 'tool' ? outputs.get(String(call)) : undefined
    if (!result) return []
    const artifact = isByClient(message) ? artifactOf(result) : null
    const { content, status } = result
    return [
      { type: 'tool', id: id!, tool_call_id: call!, content, status, name: nameIn(stored, String(call)), artifact }
    ]
  })
}

/**
 * The results as messages for a graph that has left its client's calls open, and asks nothing.
 * @param stored messages of its state
 * @param outputs by the ids of calls
 */
export function openResultsIn(stored: readonly JsonObject[], outputs: ReadonlyMap<string, ClientResult>): JsonObject[] {
  const done = new Set(stored.flatMap(({ type, tool_call_id }) => (type === 'tool' ? [tool_call_id] : [])))
  return stored.flatMap(callsOf).flatMap(({ id, name = null }): JsonObject[] => {
    const result = outputs.get(String(id))
    if (!result || done.has(id)) return []
    const { content, status } = result
    return [{ type: 'tool', tool_call_id: id!, content, status, name, artifact: artifactOf(result) }]
  })
}

function nameIn(messages: readonly JsonObject[], call: string): Json {
  return messages.flatMap(callsOf).find(({ id }) => id === call)?.name ?? null
}

function callsOf({ tool_calls }: JsonObject): JsonObject[] {
  return objectsIn(tool_calls)
}

/** Ids of the calls of a conversation that clients have run, or are to run, as far as its messages say so. */
export function clientCallsOf(messages: readonly JsonObject[]): Set<string> {
  return new Set(messages.flatMap((message) => (isByClient(message) ? [String(message.tool_call_id)] : [])))
}

/** The same of a thread, whoever has run it: of what graphs keep as they are, the run of each message knows the client's tools. */
export async function clientCallsIn(
  { states, store }: Pick<Services, 'states' | 'store'>,
  threadId: string,
  user: string,
  messages: readonly JsonObject[]
): Promise<Set<string>> {
  const known = clientCallsOf(messages)
  if (!states.isOfGraphs) return known
  const calling = messages.filter((message) => message.type === 'ai' && callsOf(message).length > 0)
  const origins = await store.events.runsOfMessages(
    threadId,
    calling.map(({ id }) => String(id)),
    user
  )
  const names = new Map<string, readonly string[]>()
  for (const runId of new Set([...origins.values()].map(({ run_id }) => run_id))) {
    const run = await store.runs.get(runId)
    names.set(runId, run ? clientToolNames(run.kwargs) : [])
  }
  for (const message of calling) {
    const own = names.get(origins.get(String(message.id))?.run_id ?? '') ?? []
    for (const { id, name } of callsOf(message)) if (own.includes(String(name))) known.add(String(id))
  }
  return known
}
