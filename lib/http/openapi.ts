// The OpenAPI 3.1 document of a table of routes: its paths, guards and schemas are the ones that validate.
import { toJsonSchema } from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { isObject, type Json, type JsonObject } from '../base/types.ts'
import type { Answer, Method, Route } from './route.ts'
import { ID_PATTERN } from './schema.ts'

/** What a document says beside the rows. */
export interface Reference {
  readonly title: string
  readonly version: string
  readonly description: string
  /** By name: what rows refer to, and `Refusal`. */
  readonly schemas: JsonObject
  /** Descriptions of parameters by name, the same on every row. */
  readonly parameters: Readonly<Record<string, string>>
}

export function documentOf(routes: readonly Route[], reference: Reference): JsonObject {
  const { title, version, description, schemas, parameters } = reference
  const paths: Record<string, JsonObject> = {}
  for (const one of routes) {
    const at = paths[one.path] ?? {}
    at[one.method.toLowerCase()] = operationOf(one, parameters)
    paths[one.path] = at
  }
  const bodies = routes.flatMap(({ body }) => (body === null ? [] : [jsonSchemaOf(body)]))
  const named = bodies
    .filter(({ title }) => title !== undefined)
    .map((schema) => [String(schema.title), schema] as const)
  return {
    openapi: '3.1.0',
    info: { title, version, description },
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: {
        session: { type: 'apiKey', in: 'cookie', name: 'access_token' },
        token: { type: 'http', scheme: 'bearer', description: 'An API token, clq_...' }
      },
      responses: refusals(),
      schemas: { ...schemas, ...Object.fromEntries(named) }
    }
  }
}

type Words = Reference['parameters']

function operationOf(one: Route, words: Words): JsonObject {
  const parameters = [...pathParameters(one, words), ...queryParameters(one, words), ...headerParameters(one)]
  const body = bodyOf(one)
  return {
    operationId: operationId(one.method, one.path),
    summary: one.summary,
    tags: [tagOf(one.path)],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: body }),
    responses: responsesOf(one),
    security:
      one.access === 'public' ? [] : one.permission === null ? [{ session: [] }] : [{ session: [] }, { token: [] }],
    ...(one.permission !== null && { 'x-scope': one.permission })
  }
}

function operationId(method: Method, path: string): string {
  const own = path.replace(/^\/api\/(v1\/)?/, '')
  const parts = own.split(/[^A-Za-z0-9]+/).filter((part) => part !== '')
  return [method.toLowerCase(), ...parts].join('_')
}

function tagOf(path: string): string {
  const [first, second, , fourth] = path.split('/').slice(1)
  if (first !== 'api') return 'service'
  if (second === 'v1') return 'accounts'
  if (second !== 'threads') return second ?? 'service'
  return fourth === undefined || fourth === 'search' ? 'threads' : fourth.replace(/^history$/, 'state')
}

function parameter(where: 'path' | 'query' | 'header', name: string, schema: JsonObject, words?: string): JsonObject {
  return {
    name,
    in: where,
    ...(words && { description: words }),
    ...(where === 'path' && { required: true }),
    schema
  }
}

function pathParameters({ path, tail }: Route, words: Words): JsonObject[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const isId = name === 'thread_id' || name === 'run_id'
    const isRest = tail && path.endsWith(`{${name}}`)
    const schema = { type: 'string', minLength: 1, ...(isId && { pattern: ID_PATTERN }) }
    return parameter('path', name, schema, isRest ? 'The rest of the path, including slashes' : words[name])
  })
}

function queryParameters({ query, reads }: Route, words: Words): JsonObject[] {
  const fromSchema = query === null ? {} : jsonSchemaOf(query).properties
  const entries = isObject(fromSchema) ? Object.entries(fromSchema) : []
  const own = Object.entries(reads.query ?? {}).map(([name, member]) => {
    const { description, schema } =
      typeof member === 'string' ? { description: member, schema: { type: 'string' } } : member
    return parameter('query', name, schema, description)
  })
  // A member of a schema of ours is an object.
  return [
    ...entries.map(([name, schema]) => parameter('query', name, inQuery(schema as JsonObject), words[name])),
    ...own
  ]
}

/** Defaults of a query are texts that are parsed: the document shows the parsed value. */
function inQuery(schema: JsonObject): JsonObject {
  const { type, default: given } = schema
  if (given === undefined || type === 'string') return schema
  return { ...schema, default: JSON.parse(String(given)) as Json }
}

function headerParameters({ method, csrf, access, reads }: Route): JsonObject[] {
  const isChecked = method !== 'GET' && csrf === 'required' && access === 'user'
  const named = {
    ...(isChecked && { 'X-CSRF-Token': 'Value of the csrf_token cookie; required with a session cookie' }),
    ...reads.headers
  }
  return Object.entries(named).map(([name, description]) => parameter('header', name, { type: 'string' }, description))
}

function bodyOf({ body, bodyLimit, bodyOptional, form }: Route): JsonObject | null {
  // The one body that handlers read themselves is a form with files.
  if (bodyLimit === 'streamed')
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
  // Named schemas are components.
  const schema = made.title === undefined ? made : { $ref: `#/components/schemas/${String(made.title)}` }
  return {
    required: !bodyOptional,
    content: { 'application/json': { schema }, ...(form && { 'application/x-www-form-urlencoded': { schema } }) }
  }
}

/** Responses of a route: its own, and those of the guards in front of it. */
function responsesOf(one: Route): JsonObject {
  const responses: Record<string, Json> = {}
  for (const [status, answer] of Object.entries(one.answers)) responses[status] = contentOf(status, answer)
  for (const status of refusalsOf(one))
    responses[status] ??=
      one.errors === 'contract' ? { $ref: `#/components/responses/${status}` } : ofProtocol(REFUSALS[status] ?? status)
  return responses
}

/** A refusal in the form of a protocol that is not ours, and has a description of its own. */
function ofProtocol(description: string): JsonObject {
  const schema = { type: 'object', properties: { error: {} }, required: ['error'], additionalProperties: true }
  return { description: `${description}; in the protocol's own form`, content: { 'application/json': { schema } } }
}

/** Error responses, which all routes share. */
function refusals(): JsonObject {
  const entries = Object.entries(REFUSALS).map(([status, description]) => {
    const isLater = status === '429' || status === '503'
    const response = {
      description,
      ...(isLater && { headers: headersOf({ 'Retry-After': 'Seconds to wait, if known' }) }),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } }
    }
    return [status, response] as const
  })
  return Object.fromEntries(entries)
}

function headersOf(headers: Readonly<Record<string, string>>): JsonObject {
  const entries = Object.entries(headers).map(
    ([name, description]) => [name, { description, schema: { type: 'string' } }] as const
  )
  return Object.fromEntries(entries)
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  101: 'The connection is a WebSocket now',
  202: 'Accepted',
  204: 'Done',
  206: 'The requested range',
  304: 'Not modified'
}

function contentOf(status: string, answer: Answer | null): JsonObject {
  const description = answer?.description ?? DESCRIPTIONS[status] ?? 'The answer'
  if (answer === null) return { description }
  const { schema, type = 'application/json', events, also = {}, headers } = answer
  // A redirect: all that it says is in its head.
  if (status.startsWith('3') && headers) return { description, headers: headersOf(headers) }
  const forms: Readonly<Record<string, JsonObject>> = {
    ...(schema && { [type]: schema }),
    ...also,
    ...(events && { 'text/event-stream': { $ref: '#/components/schemas/Event' } })
  }
  const content = Object.fromEntries(Object.entries(forms).map(([form, schema]) => [form, { schema }]))
  return { description, ...(headers && { headers: headersOf(headers) }), content }
}

const REFUSALS: Readonly<Record<string, string>> = {
  400: 'Invalid request',
  401: 'Not signed in, or the credential is not valid',
  403: 'Not allowed, or X-CSRF-Token is missing or wrong',
  404: 'Not found, or not visible to the caller',
  409: 'Conflicts with something that exists or is in progress',
  410: 'What is asked for is no longer kept',
  408: 'The request body did not arrive in time',
  413: 'The request body is too large',
  412: 'It has changed since it was read',
  415: 'Not a text',
  416: 'The range lies outside of the content',
  422: 'Validation failed; each entry of `detail` names the value',
  426: 'This address needs a WebSocket upgrade',
  429: 'Too many requests; try again after Retry-After',
  500: 'It failed; the log says why',
  501: 'Not set up here',
  503: 'Temporarily unavailable; try again after Retry-After'
}

function refusalsOf({ access, method, path, body, query, csrf, refusals }: Route): string[] {
  const hasIds = /\{(thread_id|run_id)\}/.test(path)
  const isUser = access === 'user'
  return [
    ...(isUser ? ['401', '403'] : []),
    ...(isUser || method !== 'GET' ? ['503'] : []),
    // Their Origin is checked.
    ...(csrf === 'exempt' ? ['403'] : []),
    // The path may not be UTF-8.
    ...(path.includes('{') ? ['400', '404'] : []),
    ...(body !== null || query !== null || hasIds ? ['422'] : []),
    ...(body !== null ? ['400', '408', '413', '429'] : []),
    ...refusals.map(String)
  ]
}

// --------------------------------------------------------------------------------------------------- schemas

function jsonSchemaOf(schema: v.GenericSchema): JsonObject {
  const { $schema: _, ...made } = toJsonSchema(schema, {
    errorMode: 'ignore',
    typeMode: 'output',
    target: 'draft-2020-12',
    // Schema parts that are code are described by http/schema.ts; the library only sees `unknown`.
    overrideAction: ({ valibotAction, jsonSchema }) => {
      const { metadata } = valibotAction as { readonly metadata?: { readonly schema?: object } }
      // The library copies all metadata by name.
      const { schema: _, ...made } = jsonSchema as object as JsonObject
      return metadata?.schema ? { ...made, ...metadata.schema } : undefined
    }
  })
  // It is JSON by construction.
  return made as unknown as JsonObject
}
