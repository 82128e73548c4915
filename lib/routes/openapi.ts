// Generates the OpenAPI 3.1 document from the table that serves the API: paths, guards and schemas are the ones that
// validate. Descriptions are in openapi-words.ts.
import { toJsonSchema } from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { type Method, type Route, route } from '../http/route.ts'
import { ID_PATTERN } from '../http/schema.ts'
import { isObject, type Json, type JsonObject } from '../types.ts'
import { EVENTS } from './openapi-events.ts'
import { SCHEMAS } from './openapi-schemas.ts'
import { type Answer, PARAMETERS, type Told, WORDS } from './openapi-words.ts'

/** The table with the route that describes it. Made when it is first asked for, and kept. */
export function withOpenApi(routes: readonly Route[]): Route[] {
  let text: string | null = null
  const described = route({
    method: 'GET',
    path: '/openapi.json',
    access: 'public',
    handler: () => {
      text ??= JSON.stringify(documentOf(all))
      return { jsonText: text, headers: { 'Cache-Control': 'public, max-age=300' } }
    }
  })
  const all: Route[] = [...routes, described]
  return all
}

export function documentOf(routes: readonly Route[]): JsonObject {
  const paths: Record<string, JsonObject> = {}
  for (const one of routes) {
    const at = paths[one.path] ?? {}
    at[one.method.toLowerCase()] = operationOf(one)
    paths[one.path] = at
  }
  const bodies = routes.flatMap(({ body }) => (body === null ? [] : [jsonSchemaOf(body)]))
  const named = bodies
    .filter(({ title }) => title !== undefined)
    .map((schema) => [String(schema.title), schema] as const)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Colloquy',
      version: '0.1.0',
      description:
        'Threads, runs of an agent on them, and streams that can be joined, left and joined again at the exact frame. Requests that change something and carry a session cookie repeat the csrf_token cookie in X-CSRF-Token; requests with an API token do not.'
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: {
        session: { type: 'apiKey', in: 'cookie', name: 'access_token' },
        token: { type: 'http', scheme: 'bearer', description: 'An API token, clq_...' }
      },
      responses: refusals(),
      schemas: {
        ...SCHEMAS,
        ...Object.fromEntries(named),
        Event: {
          oneOf: [...Object.keys(EVENTS).map(eventName), INNER].map((name) => ({
            $ref: `#/components/schemas/${name}`
          }))
        },
        ...eventSchemas(),
        [INNER]: INNER_EVENT
      }
    }
  }
}

/** The name of an event's schema: a slash in it would be a step of the reference. */
function eventName(event: string): string {
  return `Event_${event.replace('/', '_')}`
}

/** The data of an event is a line of text, which holds JSON. */
const asText = (data: JsonObject): JsonObject => ({
  type: 'string',
  contentMediaType: 'application/json',
  contentSchema: data
})

const cursor: JsonObject = {
  type: 'string',
  pattern: '^([0-9]+:)?[0-9]+-[0-9]+$',
  description:
    'Its cursor, <epoch>-<n>, in the stream of a whole thread behind the number of its run: where a reader goes on'
}

/** With stream_subgraphs, the events of graphs inside of a graph bear its name. */
const INNER = 'Event_of_subgraph'
export const INNER_EVENT: JsonObject = {
  type: 'object',
  description: 'What a graph inside of the graph tells: an event by its name, and behind it where the graph stands',
  properties: {
    event: { type: 'string', pattern: '^[a-z/]+\\|.+$' },
    data: { type: 'string', contentMediaType: 'application/json' },
    id: cursor
  },
  required: ['event', 'data'],
  examples: [{ event: 'updates|inner:7f3c', data: '{}', id: '1795375035467-2' }]
}

/** Every event of a stream with its data and an example. */
function eventSchemas(): Record<string, JsonObject> {
  const entries = Object.entries(EVENTS).map(([event, { summary, data, example, isWithoutId }]) => {
    const schema: JsonObject = {
      type: 'object',
      description: summary,
      properties: { event: { const: event }, data: asText(data), ...(!isWithoutId && { id: cursor }) },
      required: ['event', 'data'],
      examples: [{ event, data: JSON.stringify(example), ...(!isWithoutId && { id: '1795375035467-2' }) }]
    }
    return [eventName(event), schema] as const
  })
  return Object.fromEntries(entries)
}

function operationOf(one: Route): JsonObject {
  const words = WORDS[`${one.method} ${one.path}`]
  const parameters = [...pathParameters(one), ...queryParameters(one, words), ...headerParameters(one, words)]
  const body = bodyOf(one, words)
  return {
    operationId: operationId(one.method, one.path),
    summary: words?.summary ?? '',
    tags: [tagOf(one.path)],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: body }),
    responses: responsesOf(one, words),
    security:
      one.access === 'public' ? [] : one.permission === null ? [{ session: [] }] : [{ session: [] }, { token: [] }],
    ...(one.permission !== null && { 'x-scope': one.permission })
  }
}

function operationId(method: Method, path: string): string {
  const parts = path.split(/[^A-Za-z0-9]+/).filter((part) => part !== '' && part !== 'api' && part !== 'v1')
  return [method.toLowerCase(), ...parts].join('_')
}

function tagOf(path: string): string {
  const [first, second, , fourth] = path.split('/').slice(1)
  if (first !== 'api') return 'service'
  if (second === 'v1') return 'accounts'
  if (second !== 'threads') return second ?? 'service'
  return fourth === undefined || fourth === 'search' ? 'threads' : fourth.replace(/^history$/, 'state')
}

function parameter(
  where: 'path' | 'query' | 'header',
  name: string,
  schema: JsonObject,
  description?: string
): JsonObject {
  const words = description ?? PARAMETERS[name]
  return { name, in: where, ...(words && { description: words }), ...(where === 'path' && { required: true }), schema }
}

function pathParameters({ path, tail }: Route): JsonObject[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const isId = name === 'thread_id' || name === 'run_id'
    const isRest = tail && path.endsWith(`{${name}}`)
    const schema = { type: 'string', minLength: 1, ...(isId && { pattern: ID_PATTERN }) }
    return parameter('path', name, schema, isRest ? 'The rest of the path, slashes included' : undefined)
  })
}

function queryParameters({ query }: Route, words: Told | undefined): JsonObject[] {
  const fromSchema = query === null ? {} : jsonSchemaOf(query).properties
  const entries = isObject(fromSchema) ? Object.entries(fromSchema) : []
  const own = Object.entries(words?.query ?? {}).map(([name, told]) => {
    const { description, schema } = typeof told === 'string' ? { description: told, schema: { type: 'string' } } : told
    return parameter('query', name, schema, description)
  })
  // A member of a schema of ours is an object.
  return [...entries.map(([name, schema]) => parameter('query', name, inQuery(schema as JsonObject))), ...own]
}

/** A default in a query is written as its text, and meant as what it says. */
function inQuery(schema: JsonObject): JsonObject {
  const { type, default: given } = schema
  if (given === undefined || type === 'string') return schema
  return { ...schema, default: JSON.parse(String(given)) as Json }
}

function headerParameters({ method, csrf, access }: Route, words: Told | undefined): JsonObject[] {
  const isChecked = method !== 'GET' && csrf === 'required' && access === 'user'
  const named = {
    ...(isChecked && { 'X-CSRF-Token': 'The csrf_token cookie, where a session cookie is sent' }),
    ...words?.headers
  }
  return Object.entries(named).map(([name, description]) => parameter('header', name, { type: 'string' }, description))
}

function bodyOf({ body, bodyOptional, form }: Route, words: Told | undefined): JsonObject | null {
  if (words?.upload)
    return {
      required: true,
      content: {
        'multipart/form-data': {
          schema: {
            type: 'object',
            properties: { files: { type: 'array', items: { type: 'string', format: 'binary' } } },
            required: ['files']
          }
        }
      }
    }
  if (body === null) return null
  const made = jsonSchemaOf(body)
  // One with a name is said once.
  const schema = made.title === undefined ? made : { $ref: `#/components/schemas/${String(made.title)}` }
  return {
    required: !bodyOptional,
    content: { 'application/json': { schema }, ...(form && { 'application/x-www-form-urlencoded': { schema } }) }
  }
}

/** What a route answers: its own, and what the guards before it may say. */
function responsesOf(one: Route, words: Told | undefined): JsonObject {
  const responses: Record<string, Json> = {}
  for (const [status, answer] of Object.entries(words?.answers ?? { 200: null }))
    responses[status] = contentOf(status, answer)
  for (const status of refusalsOf(one, words)) responses[status] ??= { $ref: `#/components/responses/${status}` }
  return responses
}

/** Refusals look the same everywhere: said once. */
function refusals(): JsonObject {
  const entries = Object.entries(REFUSALS).map(([status, description]) => {
    const isLater = status === '429' || status === '503'
    const response = {
      description,
      ...(isLater && { headers: headersOf({ 'Retry-After': 'Seconds, where it is known' }) }),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } }
    }
    return [status, response] as const
  })
  return Object.fromEntries(entries)
}

function headersOf(words: Readonly<Record<string, string>>): JsonObject {
  const entries = Object.entries(words).map(
    ([name, description]) => [name, { description, schema: { type: 'string' } }] as const
  )
  return Object.fromEntries(entries)
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  101: 'The connection is a WebSocket from here on',
  202: 'Accepted',
  204: 'Done',
  206: 'The part that was asked for',
  304: 'What the caller has is what there is'
}

function contentOf(status: string, answer: Answer | null): JsonObject {
  const description = answer?.description ?? DESCRIPTIONS[status] ?? 'The answer'
  if (answer === null) return { description }
  const { schema, type = 'application/json', events, also = {}, headers } = answer
  const forms: Readonly<Record<string, JsonObject>> = {
    ...((schema || !events) && { [type]: schema ?? {} }),
    ...also,
    ...(events && { 'text/event-stream': { $ref: '#/components/schemas/Event' } })
  }
  const content = Object.fromEntries(Object.entries(forms).map(([form, schema]) => [form, { schema }]))
  return { description, ...(headers && { headers: headersOf(headers) }), content }
}

const REFUSALS: Readonly<Record<string, string>> = {
  400: 'The request cannot be met as it is',
  401: 'Nobody is signed in, or the credential is none',
  403: 'Not allowed, or X-CSRF-Token is missing or wrong',
  404: 'Not there, or not visible to the caller',
  409: 'It stands against what is there or under way',
  408: 'The body did not come in time',
  413: 'The body is too large',
  416: 'The part that was asked for lies outside of what there is',
  422: 'The request is understood and not acceptable: the entries say where',
  426: 'This address speaks WebSocket',
  429: 'Too many; Retry-After says when to come again',
  503: 'Not now; Retry-After says when to come again'
}

function refusalsOf({ access, method, path, body, query, csrf }: Route, words: Told | undefined): string[] {
  const hasIds = /\{(thread_id|run_id)\}/.test(path)
  const isUser = access === 'user'
  return [
    ...(isUser ? ['401', '403'] : []),
    ...(isUser || method !== 'GET' ? ['503'] : []),
    // Of a route that is open an Origin is asked.
    ...(csrf === 'exempt' ? ['403'] : []),
    // A path that is no UTF-8.
    ...(path.includes('{') ? ['400', '404'] : []),
    ...(body !== null || query !== null || hasIds ? ['422'] : []),
    ...(body !== null ? ['400', '408', '413', '429'] : []),
    ...(words?.refusals ?? []).map(String)
  ]
}

// --------------------------------------------------------------------------------------------------- schemas

function jsonSchemaOf(schema: v.GenericSchema): JsonObject {
  const { $schema: _, ...made } = toJsonSchema(schema, {
    errorMode: 'ignore',
    typeMode: 'output',
    target: 'draft-2020-12',
    // What http/schema.ts says of its parts: they are code, and the library sees `unknown`.
    overrideAction: ({ valibotAction, jsonSchema }) => {
      const { metadata } = valibotAction as { readonly metadata?: { readonly schema?: object } }
      // The library has taken all metadata over by name.
      const { schema: _, ...made } = jsonSchema as object as JsonObject
      return metadata?.schema ? { ...made, ...metadata.schema } : undefined
    }
  })
  // It is JSON by construction.
  return made as unknown as JsonObject
}
