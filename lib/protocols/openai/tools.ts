// What a client asks of the agent beside its messages: its own tools, instructions, the form of the answer. They go into the run's context,
// for an agent that honours them, or into the input of a graph whose schema has them; else they are refused by name.
import { CLIENT_INSTRUCTIONS, CLIENT_TOOLS, RESPONSE_FORMAT } from '../../agent/client-context.ts'
import { clientToolIn, inputNames, TOOLS_MAX } from '../client-tools.ts'
import { refusedValue } from '../../routes/input.ts'
import type { Services } from '../../routes/services.ts'
import { isObject, type Json, type JsonObject } from '../../base/types.ts'

/** What was asked, by the name of its field. */
export interface Extras {
  readonly tools: readonly JsonObject[]
  readonly instructions: string | null
  readonly format: JsonObject | null
}

/** @throws Invalid naming the field */
export function toolsIn(tools: Json | undefined, choice: Json | undefined): JsonObject[] {
  if (choice !== undefined && choice !== null && choice !== 'auto' && choice !== 'none')
    throw refusedValue(['body', 'tool_choice'], 'the agent chooses its tools itself: auto or none')
  if (tools === undefined || tools === null) return []
  if (!Array.isArray(tools)) throw refusedValue(['body', 'tools'], 'must be a list')
  if (tools.length > TOOLS_MAX) throw refusedValue(['body', 'tools'], `at most ${TOOLS_MAX}`)
  const read = tools.map((tool, at) => toolIn(tool, ['body', 'tools', String(at)]))
  return choice === 'none' ? [] : read
}

/** Both of its forms: that of responses, and that of chat completions. */
function toolIn(tool: Json, loc: readonly string[]): JsonObject {
  if (!isObject(tool) || tool.type !== 'function')
    throw refusedValue([...loc, 'type'], 'only function tools: the agent has its own')
  return clientToolIn(isObject(tool.function) ? tool.function : tool, loc)
}

/** The form of the answer as chat-completions servers take it; null: a text. @throws Invalid */
export function formatIn(format: Json | undefined, loc: readonly string[]): JsonObject | null {
  if (format === undefined || format === null) return null
  if (!isObject(format)) throw refusedValue(loc, 'must be an object')
  const { type, json_schema: nested, ...flat } = format
  if (type === 'text') return null
  if (type === 'json_object') return { type }
  const { name, schema, strict, description } = isObject(nested) ? nested : flat
  if (type !== 'json_schema' || typeof name !== 'string' || !isObject(schema))
    throw refusedValue(loc, 'must be text, json_object, or json_schema with a name and a schema')
  const more = {
    ...(typeof strict === 'boolean' && { strict }),
    ...(typeof description === 'string' && { description })
  }
  return { type, json_schema: { name, schema, ...more } }
}

/** Where they go in a run's request. @throws Invalid naming the field that the agent cannot honour */
export async function placed(
  { agent, states, assistants }: Pick<Services, 'agent' | 'states' | 'assistants'>,
  assistant: string | null,
  user: string,
  { tools, instructions, format }: Extras,
  formatField: string
): Promise<{ readonly context: JsonObject; readonly input: JsonObject }> {
  const asked: [field: string, name: string, value: Json][] = []
  if (tools.length > 0) asked.push(['tools', CLIENT_TOOLS, [...tools]])
  if (instructions !== null) asked.push(['instructions', CLIENT_INSTRUCTIONS, instructions])
  if (format !== null) asked.push([formatField, RESPONSE_FORMAT, format])
  if (asked.length === 0) return { context: {}, input: {} }
  if (agent.takesClientContext)
    return { context: Object.fromEntries(asked.map(([, name, value]) => [name, value])), input: {} }
  const takes = await inputNames({ states, assistants }, assistant, user)
  const missing = asked.find(([field]) => !takes(field))
  if (missing) throw refusedValue(['body', missing[0]], `Unsupported parameter: '${missing[0]}': this agent takes none`)
  return { context: {}, input: Object.fromEntries(asked.map(([field, , value]) => [field, value])) }
}
