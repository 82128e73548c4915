// What a client gives an agent for one run beside messages: tools that the client runs itself, instructions, and the form of the answer.
// They come in the run's context, from whichever protocol, and only an agent that `takesClientContext` honours them.
import { parseJson } from '../base/json.ts'
import { isObject, type Json, type JsonObject, type ToolMessage } from '../base/types.ts'
import type { ModelSettings } from './model.ts'
import { type Tool, UserInterrupt } from './tool.ts'

export const CLIENT_TOOLS = 'client_tools'
export const CLIENT_INSTRUCTIONS = 'client_instructions'
/** Of chat-completions servers: `{ type: 'json_schema', json_schema: {...} }`. */
export const RESPONSE_FORMAT = 'response_format'

const CLIENT_TOOL = 'client_tool'

/** Tools of the client. A call of one ends the run as a question does; its result comes as the answer. */
export function clientToolsIn(context: JsonObject): Tool[] {
  const given = context[CLIENT_TOOLS]
  return Array.isArray(given) ? given.filter(isObject).map(clientTool) : []
}

/** Names of the client's tools that a run was given: in its context, or in the input of a graph. */
export function clientToolNames({ context, input }: JsonObject): string[] {
  const lists = [isObject(context) && context[CLIENT_TOOLS], isObject(input) && input.tools]
  const given = lists.flatMap((list) => (Array.isArray(list) ? list.filter(isObject) : []))
  return given.flatMap(({ name }) => (typeof name === 'string' ? [name] : []))
}

/** Of a tool message, in its `artifact`: its call is one that the client runs. Kept with the conversation, whose runs may be gone. */
export const BY_CLIENT: JsonObject = { client_tool: true }

export function isByClient({ artifact }: { readonly artifact?: Json | undefined }): boolean {
  return isObject(artifact) && artifact.client_tool === true
}

/** The same, where the client's tool has answered a value: its JSON is the content. */
const VALUE_BY_CLIENT: JsonObject = { ...BY_CLIENT, json: true }

/** Whether an interrupt is a call of a client's tool. */
export function isClientCall(value: Json): boolean {
  return isObject(value) && value.type === CLIENT_TOOL
}

/** What a tool of the client has answered. */
export type ClientResult = Pick<ToolMessage, 'content' | 'status'> & {
  /** The content is the JSON of a value, which the client gets back as it was. */
  readonly isJson?: boolean
}

/** Of the tool message that a result becomes. */
export function artifactOf({ isJson = false }: ClientResult): JsonObject {
  return isJson ? VALUE_BY_CLIENT : BY_CLIENT
}

function isValueByClient(artifact: Json = null): boolean {
  return isByClient({ artifact }) && isObject(artifact) && artifact.json === true
}

/** The value that a tool of the client has answered. undefined: words or blocks, or no tool of the client. */
export function valueIn({ content, artifact }: JsonObject): Json | undefined {
  return isValueByClient(artifact) && typeof content === 'string' ? parseJson(content) : undefined
}

/** As an answer to the run that waits for it: its words, or as LangChain's tool message where it has more to say. */
export function answerOf(result: ClientResult): Json {
  const { content, status, isJson = false } = result
  if (typeof content === 'string' && status === 'success' && !isJson) return content
  return { type: 'tool', content, status, ...(isJson && { artifact: artifactOf(result) }) }
}

/** What an answer to a call says: anything but a tool message is its words. */
export function resultIn(answer: Json): ClientResult {
  const { type, content, status, artifact } = isObject(answer) ? answer : {}
  if (type === 'tool' && (typeof content === 'string' || Array.isArray(content)))
    return { content, status: status === 'error' ? 'error' : 'success', isJson: isValueByClient(artifact) }
  return { content: typeof answer === 'string' ? answer : JSON.stringify(answer), status: 'success' }
}

export function clientInstructionsIn(context: JsonObject): string | null {
  const given = context[CLIENT_INSTRUCTIONS]
  return typeof given === 'string' && given !== '' ? given : null
}

export function responseFormatIn(context: JsonObject): JsonObject | null {
  const given = context[RESPONSE_FORMAT]
  return isObject(given) ? given : null
}

const EFFORTS: readonly Json[] = ['low', 'medium', 'high']

/** `model_settings` and `reasoning_effort`, as far as they are what models take. */
export function modelSettingsIn({ model_settings: given, reasoning_effort: effort }: JsonObject): ModelSettings {
  const { temperature, max_tokens } = isObject(given) ? given : {}
  return {
    ...(typeof temperature === 'number' && { temperature }),
    ...(typeof max_tokens === 'number' && { max_tokens }),
    ...(typeof effort === 'string' && EFFORTS.includes(effort) && { reasoning_effort: effort })
  }
}

function clientTool({ name, description, parameters }: JsonObject): Tool {
  const named = String(name)
  return {
    name: named,
    isRepeatable: true,
    description: typeof description === 'string' ? description : '',
    parameters: isObject(parameters) ? parameters : { type: 'object', properties: {} },
    async run(args) {
      // Who does not know client tools shows the question.
      throw new UserInterrupt({ type: CLIENT_TOOL, name: named, args, question: `Waiting for the result of ${named}` })
    }
  }
}
