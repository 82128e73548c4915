// Parts of rows for the reference: JSON schemas, what many rows answer, and what many handlers read by themselves.
import type { Answer, Answers, ReadParameters } from '../http/route.ts'
import type { JsonObject } from '../base/types.ts'

// --------------------------------------------------------------------------------------------------- schemas

export const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })
export const arrayOf = (items: JsonObject): JsonObject => ({ type: 'array', items })
export const orNull = (schema: JsonObject): JsonObject => ({ anyOf: [schema, { type: 'null' }] })
export const mapOf = (values: JsonObject): JsonObject => ({ type: 'object', additionalProperties: values })
export const oneOf = (...values: (string | number)[]): JsonObject => ({ enum: values })
/** An object with required and optional members. */
export const shaped = (required: Record<string, JsonObject>, more: Record<string, JsonObject> = {}): JsonObject => ({
  type: 'object',
  properties: { ...required, ...more },
  required: Object.keys(required)
})
/** A noun, or the members that `select` names. */
export const selectable = (name: string): JsonObject => ({
  anyOf: [ref(name), { type: 'object', additionalProperties: true, description: 'With `select`: only those members' }]
})
/** An object that may have other members, from an agent or a graph. */
export const openly = (required: Record<string, JsonObject>, more: Record<string, JsonObject> = {}): JsonObject => ({
  ...shaped(required, more),
  additionalProperties: true
})

export const anything: JsonObject = {}
/** Any object: metadata, the state of a graph. */
export const anObject: JsonObject = { type: 'object', additionalProperties: true }
export const text: JsonObject = { type: 'string' }
export const int: JsonObject = { type: 'integer' }
export const number: JsonObject = { type: 'number' }
export const yesNo: JsonObject = { type: 'boolean' }
export const time: JsonObject = { type: 'string', format: 'date-time' }
export const optionalText: JsonObject = { type: ['string', 'null'] }
export const optionalTime: JsonObject = orNull(time)
export const int64: JsonObject = { ...int, format: 'int64' }

// --------------------------------------------------------------------------------------------------- answers

export const one = (schema: JsonObject = anObject, status = 200): Answers => ({ [status]: { schema } })
export const nothing: Answers = { 204: null }
export const success = one(ref('Success'))
export const message = one(shaped({ message: text }))
/** Events until the end of a run. */
/** What each event of a stream has that is not of our own kinds. */
export const anEvent = openly({ data: text }, { id: text, event: text })

export const stream: Answers = { 200: { description: 'Events until `end`', events: true } }

/** A file that clients may keep. */
export const file = (type: string, ...others: string[]): Answers => ({
  200: {
    type,
    schema: text,
    also: Object.fromEntries(others.map((other) => [other, text])),
    headers: { ETag: 'Hash of the content', 'Cache-Control': 'How long the file may be cached' }
  },
  304: null
})

const NEXT = { 'X-Pagination-Next': 'Offset of the next page; missing on the last one' }

/** A page of a list, with its place in the whole. */
export const paged = (schema: JsonObject): Answers => ({
  200: { schema, headers: { 'X-Pagination-Total': 'Number of matches', ...NEXT } }
})

/** A page of what is not counted. */
export const nextNamed = (schema: JsonObject): Answers => ({ 200: { schema, headers: NEXT } })

/** The whole, the part that a Range asks for, or nothing if the client has it already. */
export const partly = (type: string, schema: JsonObject): Answers => ({
  200: { type, schema, headers: { ETag: 'Changes with the content', 'Accept-Ranges': 'bytes' } },
  206: { type, schema: {}, headers: { 'Content-Range': 'The range sent, and the size of the whole' } },
  304: null
})
export const ranged: ReadParameters = {
  headers: {
    Range: 'A part of the file: bytes=0-1023',
    'If-Range': 'Send the range only if the ETag still matches',
    'If-None-Match': 'Send nothing if the ETag still matches'
  }
}

const places = { 'Content-Location': 'Path of the run', Location: 'Path of its stream, below /api' }
/** The same answers, with the addresses of the run that was started. */
export const placed = (answers: Answers): Answers =>
  Object.fromEntries(
    Object.entries<Answer | null>(answers).map(([status, answer]) => [status, { ...answer, headers: places }])
  )
export const repeatable: ReadParameters = {
  headers: { 'Idempotency-Key': 'Repeating a request with the same key and body returns the same run' }
}

/** What a reader of a stream says: where to resume, and what it wants. */
export const position = {
  query: {
    last_event_id: 'Resume after this cursor, for clients that cannot set Last-Event-ID',
    stream_mode: {
      description: 'Stream modes, repeated or separated by commas: messages-tuple, values, updates, custom...',
      schema: arrayOf(text)
    },
    mode: { description: '`snapshot`: start with the current state of the run', schema: oneOf('snapshot') }
  },
  headers: { 'Last-Event-ID': 'Resume after this cursor' }
} as const satisfies ReadParameters
