// What a client sends as messages of ours: the items of the Responses API, and those of chat completions.
import { randomUUID } from 'node:crypto'
import { Invalid } from '../../base/errors.ts'
import { issue } from '../../http/schema.ts'
import { refusedValue } from '../../routes/input.ts'
import { isObject, type Json, type JsonObject, type ToolMessage } from '../../base/types.ts'
import { BY_CLIENT, type ClientResult } from '../../agent/client-context.ts'

type Loc = readonly string[]

export interface Input {
  /** In LangChain's form. */
  readonly messages: readonly JsonObject[]
  /** Results of calls that the input does not have: an earlier response has made them. */
  readonly outputs: ReadonlyMap<string, ClientResult>
  /** Names of files of the conversation, and where they were named. */
  readonly files: readonly { readonly name: string; readonly loc: Loc }[]
}

/** Items of one request: enough to send a long conversation again. */
const ITEMS_MAX = 10_000
const ROLES = ['user', 'assistant', 'system', 'developer']
/** Items that clients send again and that say nothing to an agent. */
const SILENT = ['reasoning', 'mcp_list_tools']
const FOLDER = '/mnt/user-data/uploads/'
/** Of a result: the protocol has no word for one that failed. */
const OF_CLIENT: Pick<ToolMessage, 'artifact' | 'status'> = { artifact: BY_CLIENT, status: 'success' }

/** @throws Invalid naming what it does not take */
export function readItems(input: Json | undefined, loc: Loc = ['body', 'input']): Input {
  if (input === undefined || input === null) throw missing(loc)
  const reader = new InputReader()
  if (typeof input === 'string') reader.add('human', input)
  else for (const [item, at] of listOf(input, loc)) reader.item(item, at)
  return reader.done()
}

/** @throws Invalid naming what it does not take */
export function readChat(messages: Json | undefined, loc: Loc = ['body', 'messages']): Input {
  if (messages === undefined || messages === null) throw missing(loc)
  const reader = new InputReader()
  for (const [message, at] of listOf(messages, loc)) reader.chat(message, at)
  return reader.done()
}

function listOf(given: Json, loc: Loc): [JsonObject, Loc][] {
  if (!Array.isArray(given)) throw refusedValue(loc, 'must be a list')
  if (given.length === 0) throw refusedValue(loc, 'must not be empty')
  if (given.length > ITEMS_MAX) throw refusedValue(loc, `has more than ${ITEMS_MAX} items`)
  return given.map((one, at) => {
    const here = [...loc, String(at)]
    if (!isObject(one)) throw refusedValue(here, 'must be an object')
    return [one, here]
  })
}

function missing(loc: Loc): Invalid {
  return new Invalid([issue('missing', loc)])
}

class InputReader {
  readonly #messages: JsonObject[] = []
  readonly #outputs = new Map<string, ClientResult>()
  readonly #files: { name: string; loc: Loc }[] = []
  readonly #calls = new Map<string, string>()

  done(): Input {
    return { messages: this.#messages, outputs: this.#outputs, files: this.#files }
  }

  add(type: string, content: Json): void {
    this.#messages.push({ type, id: randomUUID(), content })
  }

  /** An item of the Responses API. */
  item(item: JsonObject, loc: Loc): void {
    const { type = 'message', role, content } = item
    if (SILENT.includes(String(type))) return
    if (type === 'message') return this.#message(role, content, loc)
    if (type === 'function_call') return this.#call(item.call_id, item.name, item.arguments, loc)
    if (type === 'function_call_output') return this.#output(item.call_id, item.output, loc)
    if (type !== 'mcp_call') throw refusedValue([...loc, 'type'], `items of type ${shortOf(type)} are not taken`)
    this.#call(item.id, item.name, item.arguments, loc)
    const { error = null } = item
    this.#output(item.id, error ?? item.output ?? '', loc, {
      artifact: null,
      status: error === null ? 'success' : 'error'
    })
  }

  /** A message of chat completions. */
  chat({ role, content = null, tool_calls, tool_call_id }: JsonObject, loc: Loc): void {
    if (role === 'tool') return this.#output(tool_call_id, content, loc)
    if (content !== null || tool_calls === undefined) this.#message(role, content, loc)
    const calls = Array.isArray(tool_calls) ? tool_calls.filter(isObject) : []
    for (const [at, { id, function: called }] of calls.entries()) {
      const { name, arguments: args } = isObject(called) ? called : {}
      this.#call(id, name, args, [...loc, 'tool_calls', String(at)])
    }
  }

  #message(role: Json | undefined, content: Json | undefined, loc: Loc): void {
    if (typeof role !== 'string' || !ROLES.includes(role))
      throw refusedValue([...loc, 'role'], `must be one of ${ROLES.join(', ')}`)
    const type = role === 'user' ? 'human' : role === 'assistant' ? 'ai' : 'system'
    this.add(type, this.#content(content, [...loc, 'content']))
  }

  /** Calls of one answer are one message's. */
  #call(id: Json | undefined, name: Json | undefined, args: Json | undefined, loc: Loc): void {
    if (typeof id !== 'string' || typeof name !== 'string') throw refusedValue(loc, 'a call needs its id and its name')
    const call = { type: 'tool_call', id, name, args: argsIn(args, loc) }
    this.#calls.set(id, name)
    const last = this.#messages.at(-1)
    if (last?.type !== 'ai') return void this.#messages.push(withCalls({ id: randomUUID(), content: '' }, [call]))
    const before = Array.isArray(last.tool_calls) ? last.tool_calls : []
    this.#messages[this.#messages.length - 1] = withCalls(last, [...before, call])
  }

  #output(id: Json | undefined, output: Json | undefined, loc: Loc, { artifact, status } = OF_CLIENT): void {
    if (typeof id !== 'string') throw refusedValue(loc, 'a result needs the id of its call')
    const content = output === null || output === undefined ? '' : this.#content(output, [...loc, 'output'])
    const result: ClientResult = { content, status }
    const name = this.#calls.get(id)
    if (name === undefined) return void this.#outputs.set(id, result)
    this.#messages.push({ type: 'tool', id: randomUUID(), tool_call_id: id, name, ...result, artifact })
  }

  /** A text where all parts are texts of one. */
  #content(content: Json | undefined, loc: Loc): string | JsonObject[] {
    if (typeof content === 'string') return content
    if (!Array.isArray(content)) throw refusedValue(loc, 'must be a text or a list of parts')
    const parts = content.map((part, at) => this.#part(part, [...loc, String(at)]))
    const [first] = parts
    return parts.length === 1 && first?.type === 'text' ? String(first.text) : parts
  }

  #part(part: Json, loc: Loc): JsonObject {
    if (!isObject(part)) throw refusedValue(loc, 'must be an object')
    const { type, text, refusal, image_url, file } = part
    const said = text ?? refusal
    if (
      ['input_text', 'output_text', 'text', 'refusal', 'summary_text'].includes(String(type)) &&
      typeof said === 'string'
    )
      return { type: 'text', text: said }
    if (type === 'input_image') return this.#image(part, image_url, loc)
    if (type === 'image_url')
      return this.#image({ ...part, file_id: null }, isObject(image_url) ? image_url.url : image_url, loc)
    if (type === 'input_file') return this.#file(part, loc)
    if (type === 'file' && isObject(file)) return this.#file(file, [...loc, 'file'])
    throw refusedValue([...loc, 'type'], `parts of type ${shortOf(type)} are not taken`)
  }

  #image({ file_id, detail }: JsonObject, url: Json | undefined, loc: Loc): JsonObject {
    if (typeof file_id === 'string') return this.#named(file_id, [...loc, 'file_id'])
    if (typeof url !== 'string' || !/^(data:image\/|https?:\/\/)/.test(url))
      throw refusedValue([...loc, 'image_url'], 'must be a data URL of an image, or a URL of http or https')
    return { type: 'image_url', image_url: { url, ...(typeof detail === 'string' && { detail }) } }
  }

  #file({ file_id, file_data, file_url, filename }: JsonObject, loc: Loc): JsonObject {
    if (typeof file_id === 'string') return this.#named(file_id, [...loc, 'file_id'])
    if (typeof file_url === 'string') throw refusedValue([...loc, 'file_url'], 'files come as data, or by their id')
    if (typeof file_data !== 'string') throw refusedValue(loc, 'a file needs file_data or file_id')
    const name = typeof filename === 'string' ? filename : 'file'
    return { type: 'file', file: { filename: name, file_data } }
  }

  /** A file of the conversation: the agent reads it with its tools. */
  #named(id: string, loc: Loc): JsonObject {
    const name = id.startsWith(FOLDER) ? id.slice(FOLDER.length) : id
    this.#files.push({ name, loc })
    return { type: 'text', text: `${FOLDER}${name}` }
  }
}

function withCalls(message: JsonObject, tool_calls: Json[]): JsonObject {
  return { ...message, type: 'ai', tool_calls }
}

function argsIn(args: Json | undefined, loc: Loc): JsonObject {
  try {
    const read: unknown = typeof args === 'string' ? JSON.parse(args === '' ? '{}' : args) : args
    if (isObject(read)) return read
  } catch {}
  throw refusedValue([...loc, 'arguments'], 'must be a JSON object as text')
}

function shortOf(value: Json | undefined): string {
  return JSON.stringify(value ?? null).slice(0, 64)
}
