// The API described in OpenAPI 3.1, made of the table that serves it: paths, guards and schemas are those of the routes, so what is
// described is what is checked. The words for people stand in openapi-words.ts.
import { toJsonSchema } from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { type Method, type Route, route } from '../http/route.ts'
import { ID_PATTERN } from '../http/schema.ts'
import { isObject, type Json, type JsonObject } from '../types.ts'
import { EVENTS, SCHEMAS, type Told, WORDS } from './openapi-words.ts'

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
      schemas: { ...SCHEMAS, ...eventSchemas() }
    }
  }
}

/** The name of an event's schema: a slash in it would be a step of the reference. */
function eventName(event: string): string {
  return `Event_${event.replace('/', '_')}`
}

/** Every event of a stream with its data and an example. */
function eventSchemas(): Record<string, JsonObject> {
  const entries = Object.entries(EVENTS).map(([event, { summary, data, example }]) => {
    const schema: JsonObject = {
      type: 'object',
      description: summary,
      properties: {
        event: { const: event },
        data,
        id: { type: 'string', description: '<epoch>-<n>; none for end and gap' }
      },
      required: ['event', 'data'],
      examples: [{ event, data: example }]
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

function pathParameters({ path, tail }: Route): JsonObject[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const isId = name === 'thread_id' || name === 'run_id'
    const isRest = tail && path.endsWith(`{${name}}`)
    return {
      name,
      in: 'path',
      required: true,
      schema: { type: 'string', ...(isId && { pattern: ID_PATTERN }) },
      ...(isRest && { description: 'The rest of the path, slashes included' })
    }
  })
}

function queryParameters({ query }: Route, words: Told | undefined): JsonObject[] {
  const fromSchema = query === null ? {} : jsonSchemaOf(query).properties
  const entries = isObject(fromSchema) ? Object.entries(fromSchema) : []
  const own = Object.entries(words?.query ?? {}).map(([name, description]) => ({ name, description }))
  return [
    ...entries.map(([name, schema]) => ({ name, in: 'query', schema: schema as Json })),
    ...own.map(({ name, description }) => ({ name, in: 'query', description, schema: { type: 'string' } }))
  ]
}

function headerParameters({ method, csrf, access }: Route, words: Told | undefined): JsonObject[] {
  const isChanging = method !== 'GET'
  const text = (name: string, description: string) => ({ name, in: 'header', description, schema: { type: 'string' } })
  return [
    ...(isChanging && csrf === 'required' && access === 'user'
      ? [text('X-CSRF-Token', 'The csrf_token cookie, where a session cookie is sent')]
      : []),
    ...Object.entries(words?.headers ?? {}).map(([name, description]) => text(name, description))
  ]
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
  const schema = jsonSchemaOf(body)
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
  for (const status of refusalsOf(one, words))
    responses[status] ??= {
      description: REFUSALS[status] ?? 'Refused',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } }
    }
  return responses
}

function contentOf(status: string, answer: Told['answers'][string]): JsonObject {
  const description = answer?.description ?? (status === '204' || status === '202' ? 'Done' : 'The answer')
  if (answer === null || answer === undefined) return { description }
  if (answer.events)
    return {
      description,
      content: {
        'text/event-stream': {
          schema: { oneOf: Object.keys(EVENTS).map((event) => ({ $ref: `#/components/schemas/${eventName(event)}` })) }
        }
      }
    }
  return { description, content: { [answer.type ?? 'application/json']: { schema: answer.schema ?? {} } } }
}

const REFUSALS: Readonly<Record<string, string>> = {
  400: 'The request cannot be met as it is',
  401: 'Nobody is signed in, or the credential is none',
  403: 'Not allowed, or X-CSRF-Token is missing or wrong',
  404: 'Not there, or not visible to the caller',
  409: 'It stands against what is there or under way',
  413: 'The body is too large',
  422: 'The request is understood and not acceptable: the entries say where',
  429: 'Too many; Retry-After says when to come again',
  503: 'Not now; Retry-After says when to come again'
}

function refusalsOf({ access, method, path, body, query, permission }: Route, words: Told | undefined): string[] {
  const hasIds = /\{(thread_id|run_id)\}/.test(path)
  return [
    ...(access === 'user' ? ['401', '503'] : []),
    ...(method !== 'GET' || permission !== null || access === 'user' ? ['403'] : []),
    ...(path.includes('{') ? ['404'] : []),
    ...(body !== null || query !== null || hasIds ? ['422'] : []),
    ...(body !== null ? ['400', '413'] : []),
    ...(words?.refusals ?? []).map(String)
  ]
}

// --------------------------------------------------------------------------------------------------- schemas

/** Bounds of what a double holds exactly: true of every number, and no rule of ours. */
const isEdge = (bound: unknown): boolean => typeof bound === 'number' && Math.abs(bound) === Number.MAX_SAFE_INTEGER

function jsonSchemaOf(schema: v.GenericSchema): JsonObject {
  const { $schema: _, ...made } = toJsonSchema(schema, {
    errorMode: 'ignore',
    typeMode: 'output',
    target: 'draft-2020-12',
    // What comes out is a JSON schema, whatever its type is called here.
    overrideSchema: ({ valibotSchema }) => overridden(valibotSchema) as object | undefined
  })
  // It is JSON by construction.
  return made as unknown as JsonObject
}

/** Parts that http/schema.ts makes of `unknown` and a check: integers and objects that are passed on as they are. */
function overridden(schema: object): JsonObject | undefined {
  const pipe: readonly { type: string; requirement?: Json }[] =
    'pipe' in schema && Array.isArray(schema.pipe) ? schema.pipe : []
  if (pipe[0]?.type !== 'unknown' || pipe[1]?.type !== 'raw_transform') return undefined
  const min = pipe.find(({ type }) => type === 'min_value')?.requirement
  const max = pipe.find(({ type }) => type === 'max_value')?.requirement
  if (min !== undefined && max !== undefined)
    return { type: 'integer', ...(!isEdge(min) && { minimum: min }), ...(!isEdge(max) && { maximum: max }) }
  return pipe.length === 2 || (pipe.length === 3 && pipe[2]?.type === 'check') ? { type: 'object' } : undefined
}
