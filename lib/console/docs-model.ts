// The OpenAPI document as the reference shows it: operations by group, example values, and calls as code.

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly prefixItems?: readonly Schema[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly format?: string
  readonly contentSchema?: Schema
}
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly description?: string
  readonly schema: Schema
}
type Forms = Readonly<Record<string, { readonly schema?: Schema }>>
export interface Response {
  readonly $ref?: string
  readonly description?: string
  readonly content?: Forms
  readonly headers?: Readonly<Record<string, { readonly description?: string }>>
}
interface Described {
  readonly operationId: string
  readonly summary: string
  readonly tags: readonly string[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Forms }
  readonly responses: Readonly<Record<string, Response>>
  readonly security: readonly Readonly<Record<string, unknown>>[]
  readonly 'x-scope'?: string
}
export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly responses: Readonly<Record<string, Response>>
  }
}
export interface Operation extends Described {
  readonly method: string
  readonly path: string
}
/** The reader's input: parameters by name, and the body. */
export interface Filled {
  readonly values: Readonly<Record<string, string>>
  readonly body: string
}

export function operationsOf(api: ApiDocument): Operation[] {
  return Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({ ...described, method: method.toUpperCase(), path }))
  )
}

/** Operations by group, in the order of the document, that contain all the words. */
export function groupsOf(operations: readonly Operation[], search: string): [string, Operation[]][] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const groups = new Map<string, Operation[]>()
  for (const one of operations) {
    const text = `${one.method} ${one.path} ${one.summary} ${one.tags.join(' ')}`.toLowerCase()
    if (!words.every((word) => text.includes(word))) continue
    const group = one.tags[0] ?? 'other'
    groups.set(group, [...(groups.get(group) ?? []), one])
  }
  return [...groups]
}

function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

export function resolved(api: ApiDocument, schema: Schema): Schema {
  const found = schema.$ref === undefined ? undefined : api.components.schemas[nameOf(schema.$ref)]
  return found ?? schema
}

export function responseOf(api: ApiDocument, response: Response): Response {
  const found = response.$ref === undefined ? undefined : api.components.responses[nameOf(response.$ref)]
  return found ?? response
}

/** A type in a few words: `integer`, `Thread[]`, `text or null`. */
export function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  const several = schema.anyOf ?? schema.oneOf
  if (several) return several.map(typeOf).join(' or ')
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.type === 'array') return schema.items ? `${typeOf(schema.items)}[]` : 'array'
  const type = Array.isArray(schema.type) ? schema.type.join(' or ') : String(schema.type ?? 'anything')
  return schema.format ? `${type} (${schema.format})` : type
}

const DEPTH_MAX = 6

/** An example value; of objects the required members and those with an example. */
export function exampleOf(api: ApiDocument, given: Schema, depth = 0): unknown {
  const schema = resolved(api, given)
  if (schema.examples?.length) return schema.examples[0]
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  if (schema.default !== undefined) return schema.default
  const several = schema.anyOf ?? schema.oneOf
  if (several?.[0]) return exampleOf(api, several[0], depth)
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  if (type === 'object') return objectLike(api, schema, depth)
  if (type === 'array') return []
  if (type === 'integer' || type === 'number') return 1
  return type === 'boolean' ? true : type === 'string' ? '' : null
}

function objectLike(api: ApiDocument, { properties = {}, required = [] }: Schema, depth: number): unknown {
  if (depth > DEPTH_MAX) return {}
  const shown = Object.entries(properties).filter(([name, one]) => required.includes(name) || hasExample(api, one))
  return Object.fromEntries(shown.map(([name, one]) => [name, exampleOf(api, one, depth + 1)]))
}

function hasExample(api: ApiDocument, given: Schema): boolean {
  const schema = resolved(api, given)
  return Boolean(schema.examples?.length) || Boolean(schema.anyOf?.some((one) => hasExample(api, one)))
}

// ------------------------------------------------------------------------------------------------- calls

const isStream = ({ responses }: Operation): boolean => responses['200']?.content?.['text/event-stream'] !== undefined
const takesJson = ({ requestBody }: Operation): boolean => requestBody?.content['application/json'] !== undefined
/** Whether it accepts an API token. */
const takesToken = ({ security }: Operation): boolean => security.some((one) => 'token' in one)

/** Path and query with the input; unfilled path parameters stay in braces. */
export function addressOf({ path, parameters = [] }: Operation, { values }: Filled): string {
  const filled = path.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name]
    if (!value) return whole
    return name === 'path' ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value)
  })
  const query = new URLSearchParams()
  for (const { name, in: where } of parameters) if (where === 'query' && values[name]) query.set(name, values[name])
  return query.size > 0 ? `${filled}?${query}` : filled
}

/** Headers from the input; the page sets X-CSRF-Token itself. */
export function headersOf({ parameters = [] }: Operation, { values }: Filled): [string, string][] {
  return parameters
    .filter(({ name, in: where }) => where === 'header' && name !== 'X-CSRF-Token' && values[name])
    .map(({ name }) => [name, values[name] ?? ''])
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

export function curlOf(operation: Operation, filled: Filled, origin: string): string {
  const { method, security } = operation
  const sends = filled.body !== '' && takesJson(operation)
  const proof = takesToken(operation)
    ? ['-H "Authorization: Bearer $COLLOQUY_TOKEN"']
    : security.length > 0
      ? ['-b cookies.txt', ...(method === 'GET' ? [] : ['-H "X-CSRF-Token: $CSRF_TOKEN"'])]
      : []
  const isUpload = operation.requestBody?.content['multipart/form-data'] !== undefined
  return [
    `curl ${isStream(operation) ? '-N ' : ''}${method === 'GET' ? '' : `-X ${method} `}${quoted(origin + addressOf(operation, filled))}`,
    ...proof,
    ...headersOf(operation, filled).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    ...(sends ? ["-H 'Content-Type: application/json'", `-d ${quoted(filled.body)}`] : []),
    ...(isUpload ? ["-F 'files=@notes.txt'"] : [])
  ].join(' \\\n  ')
}

const PACKAGE = 'colloquy/client'

export function typescriptOf(operation: Operation, filled: Filled, origin: string): string {
  const { method, path } = operation
  const token = takesToken(operation) ? ', token: process.env.COLLOQUY_TOKEN' : ''
  const head = `import { Colloquy } from '${PACKAGE}'\n\nconst colloquy = new Colloquy({ url: '${origin}'${token} })\n`
  const sends = filled.body !== '' && takesJson(operation)
  const frames = (made: string) => `${head}for await (const frame of ${made}) console.log(frame.event, frame.data)`
  const name = (key: string) => JSON.stringify(filled.values[key] || `{${key}}`)
  if (path === '/api/threads/{thread_id}/runs/stream')
    return frames(`colloquy.start(${name('thread_id')}, ${filled.body || '{}'})`)
  if (path === '/api/runs/stream') return frames(`colloquy.start(null, ${filled.body || '{}'})`)
  if (isStream(operation) && method === 'GET')
    return frames(`colloquy.watch({ thread_id: ${name('thread_id')}, run_id: ${name('run_id')} })`)
  const args = [`'${method}'`, `'${addressOf(operation, filled)}'`, ...(sends ? [filled.body] : [])]
  return `${head}const answer = await colloquy.call(${args.join(', ')})`
}
