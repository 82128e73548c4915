// Assistants as tools of the Model Context Protocol (MCP).
import type { Tool } from '@modelcontextprotocol/client'
import type { Services } from '../../routes/services.ts'
import { type Assistant, isObject, type Json, type JsonObject } from '../../base/types.ts'
import { INVALID_PARAMS, RpcError } from '../json-rpc.ts'

/** Tools of one page. */
const PAGE = 100

/** What a call of a tool asks for. */
interface ToolCall {
  readonly assistant: string
  readonly threadId: string | null
  /** null: there are only other values. */
  readonly message: string | null
  /** Other values of the graph's input. */
  readonly values: JsonObject
}

interface GraphInput {
  readonly properties: Readonly<Record<string, Json>>
  readonly required: readonly string[]
  readonly defs: JsonObject
  /** It takes messages: `message` is one. */
  readonly takesMessage: boolean
}

const MESSAGE = { type: 'string', description: 'What to say to the assistant' }
const THREAD = { type: 'string', description: 'The thread_id of an earlier result, to go on with that conversation' }
const OURS = ['message', 'thread_id', 'messages']

const OUTPUT = {
  type: 'object' as const,
  properties: {
    thread_id: { type: 'string' },
    run_id: { type: 'string' },
    status: { type: 'string', enum: ['completed', 'input_required', 'failed', 'cancelled'] },
    message: { type: ['string', 'null'], description: 'The answer' },
    question: {
      type: ['string', 'null'],
      description: 'What the assistant asks: call the tool again with the answer as message'
    }
  },
  required: ['thread_id', 'run_id', 'status', 'message']
}

export class AssistantTools {
  readonly #services: Pick<Services, 'assistants' | 'states'>

  constructor(services: Pick<Services, 'assistants' | 'states'>) {
    this.#services = services
  }

  /** @param cursor as the page before has named it. @throws RpcError for one that none has */
  async page(
    user: string,
    cursor: Json | undefined,
    withTasks: boolean
  ): Promise<{ tools: Tool[]; nextCursor?: string }> {
    const from = cursor === undefined ? 0 : Number(cursor)
    if (!Number.isSafeInteger(from) || from < 0) throw new RpcError(INVALID_PARAMS, 'params.cursor is none of ours')
    const all = await this.#all(user)
    const shown = all.slice(from, from + PAGE)
    const tools = await Promise.all(shown.map((one) => this.#tool(one, withTasks)))
    return { tools, ...(from + PAGE < all.length && { nextCursor: String(from + PAGE) }) }
  }

  /** @throws RpcError for an unknown tool, or arguments that it does not take */
  async call(user: string, { name, arguments: given = {} }: JsonObject): Promise<ToolCall> {
    const assistant = (await this.#all(user)).find((one) => nameOf(one) === name)
    if (!assistant) throw new RpcError(INVALID_PARAMS, `Unknown tool: ${String(name).slice(0, 128)}`)
    const refuse = (what: string) => new RpcError(INVALID_PARAMS, `params.arguments${what}`)
    if (!isObject(given)) throw refuse(' must be an object')
    const { message, thread_id: threadId = null } = given
    const { properties, required, takesMessage } = await this.#inputOf(assistant)
    if (message === undefined ? takesMessage : typeof message !== 'string') throw refuse('.message must be a text')
    if (threadId !== null && typeof threadId !== 'string') throw refuse('.thread_id must be a text')
    const unknown = Object.keys(given).find((key) => !OURS.includes(key) && !Object.hasOwn(properties, key))
    if (unknown !== undefined) throw refuse(`.${unknown.slice(0, 64)} is unknown`)
    const missing = required.find((key) => given[key] === undefined)
    if (missing !== undefined) throw refuse(`.${missing} is missing`)
    const values = Object.fromEntries(Object.entries(given).filter(([key]) => !OURS.includes(key)))
    return { assistant: idOf(assistant), threadId, message: typeof message === 'string' ? message : null, values }
  }

  async #all(user: string): Promise<Assistant[]> {
    const all = await this.#services.assistants.runnable(user)
    // Graphs first, and each list in an order of its own that stays.
    return all.sort((one, other) => order(one).localeCompare(order(other)))
  }

  async #tool(assistant: Assistant, withTasks: boolean): Promise<Tool> {
    const { properties, required, defs, takesMessage } = await this.#inputOf(assistant)
    const { name, description, graph_id } = assistant
    return {
      name: nameOf(assistant),
      title: name,
      description: description || `Talks to the assistant ${name}`,
      inputSchema: {
        type: 'object',
        properties: { ...(takesMessage && { message: MESSAGE }), thread_id: THREAD, ...properties },
        required: [...(takesMessage ? ['message'] : []), ...required],
        ...(Object.keys(defs).length > 0 && { $defs: defs })
      },
      outputSchema: OUTPUT,
      annotations: { openWorldHint: true, readOnlyHint: false },
      ...(withTasks && { execution: { taskSupport: 'optional' as const } }),
      _meta: { 'colloquy/graph_id': graph_id }
    }
  }

  /** What its graph takes besides messages, where its schema says so. */
  async #inputOf({ graph_id, config }: Assistant): Promise<GraphInput> {
    const told = await this.#services.states.schemas(graph_id, config)
    const schema = told && isObject(told.input_schema) ? told.input_schema : {}
    const all = isObject(schema.properties) ? schema.properties : {}
    const properties = Object.fromEntries(Object.entries(all).filter(([key]) => !OURS.includes(key)))
    const named = Array.isArray(schema.required) ? schema.required : []
    const required = named.filter((key): key is string => typeof key === 'string' && Object.hasOwn(properties, key))
    const defs = isObject(schema.$defs) ? schema.$defs : {}
    return { properties, required, defs, takesMessage: Object.keys(all).length === 0 || 'messages' in all }
  }
}

const order = (one: Assistant): string => `${one.user_id === null ? 0 : 1}${one.created_at}${one.assistant_id}`

const idOf = ({ user_id, graph_id, assistant_id }: Assistant): string => (user_id === null ? graph_id : assistant_id)

/** A graph's name as it is; that of a user's assistant with the beginning of its id, since names repeat. */
function nameOf(assistant: Assistant): string {
  const { user_id, graph_id, name, assistant_id } = assistant
  const plain = (text: string) => text.replaceAll(/[^\w.-]+/g, '_').slice(0, 100)
  return user_id === null ? plain(graph_id) : `${plain(name)}_${assistant_id.slice(0, 8)}`
}
