// The walk over the route table: every route is sent, in each field of its schema, the largest body that it takes, in the shapes
// that cost most. None may hold the event loop or fill the memory. A route that is added tomorrow is walked as well.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import type * as v from 'valibot'
import { VALUES_MAX } from '../../lib/http/body.ts'
import { BODY_BYTES, type Route } from '../../lib/http/route.ts'
import { isObject, type Json } from '../../lib/base/types.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { upload } from '../fixtures/form.ts'
import { listIn, PASSWORD, Person, signIn, textIn } from '../fixtures/gateway.ts'
import { table } from '../fixtures/openapi.ts'
import { nowhere } from '../fixtures/place.ts'
import { besieged, type Damage, WHOLE, withstands } from '../fixtures/siege.ts'

// --------------------------------------------------------------------------------------------------- fields

/** What is inside a field of any object, where the cost lies deeper than the schema looks. */
const DEEPER: Readonly<Record<string, readonly string[]>> = {
  input: ['messages', 'messages.0.content', 'messages.0.id', 'messages.0.tool_calls', 'messages.0.additional_kwargs'],
  values: ['messages', 'messages.0.content', 'title', 'any'],
  config: ['configurable', 'configurable.thread_id', 'configurable.model_name', 'tags'],
  command: ['resume'],
  checkpoint: ['checkpoint_id'],
  metadata: ['key'],
  facts: ['0.content', '0.id'],
  messages: ['0.content', '0.role'],
  mcp_servers: ['a', 'a.args', 'a.env', 'a.url', 'a.command']
}

/** Of bodies that are any object: members that their protocols read. */
const OF_PROTOCOLS = [
  'id',
  'method',
  'params',
  'params.message',
  'params.message.parts',
  'params.arguments',
  'params.arguments.message',
  'params._meta',
  'message',
  'message.parts'
]

/** The names that a schema of a body knows, also where it is wrapped in others. */
function fieldsOf(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  if ('entries' in schema && isEntries(schema.entries)) return Object.keys(schema.entries)
  if ('options' in schema && Array.isArray(schema.options)) return [...new Set(schema.options.flatMap(fieldsOf))]
  if ('item' in schema) return fieldsOf(schema.item).map((field) => `0.${field}`)
  const inner = 'pipe' in schema && Array.isArray(schema.pipe) ? schema.pipe.filter((one) => one !== schema) : []
  const fields = inner.flatMap(fieldsOf)
  return fields.length > 0 || !('wrapped' in schema) ? fields : fieldsOf(schema.wrapped)
}

function isEntries(value: unknown): value is v.ObjectEntries {
  return typeof value === 'object' && value !== null
}

/** `a.0.b` of a copy of `body` set to a value; what is missing on the way is made. */
function withField(body: Json, path: readonly string[], value: Json): Json {
  const [name, ...rest] = path
  if (name === undefined) return value
  if (/^\d+$/.test(name)) return [withField(Array.isArray(body) ? (body[0] ?? null) : null, rest, value)]
  const object = isObject(body) ? body : name === 'content' ? { role: 'user' } : {}
  return { ...object, [name]: withField(object[name] ?? null, rest, value) }
}

// --------------------------------------------------------------------------------------------------- shapes

/** The largest value of a kind that `bytes` of JSON hold. */
const SHAPES: Readonly<Record<string, (bytes: number) => string>> = {
  'one long text': (bytes) => JSON.stringify('x'.repeat(bytes)),
  'combining marks': (bytes) => JSON.stringify(`a${'\u0301'.repeat(bytes / 2 - 1)}`),
  blanks: (bytes) => JSON.stringify(`x${' '.repeat(bytes - 2)}x`),
  slashes: (bytes) => JSON.stringify(`${'/'.repeat(bytes - 1)}x`),
  'lone surrogates': (bytes) => `"${'\\ud800'.repeat(bytes / 6)}"`,
  'escapes, and one half': (bytes) => `"${'\\\\'.repeat(bytes / 2 - 3)}\\ud800"`,
  'a long list': (bytes) => `[${'1,'.repeat(least(bytes / 2) - 1)}1]`,
  'a list of texts': (bytes) => `[${'"",'.repeat(least(bytes / 3) - 1)}""]`,
  'wrong items': (bytes) => `[${'{},'.repeat(least(bytes / 3) - 1)}{}]`,
  'tiny messages': (bytes) => `[${'{"role":"user","content":""},'.repeat(least(bytes / 29, 3) - 1)}"x"]`,
  'the same message': (bytes) => `[${'{"id":"a","content":""},'.repeat(least(bytes / 24, 3) - 1)}"x"]`,
  'many keys': (bytes) => `{${Array.from({ length: least(bytes / 12) }, (_, i) => `"k${i}":1`).join(',')}}`,
  'deep lists': (bytes) => '['.repeat(least(bytes / 2, 1, 499)) + ']'.repeat(least(bytes / 2, 1, 499)),
  'deep objects': (bytes) => `${'{"a":'.repeat(least(bytes / 6, 1, 499))}1${'}'.repeat(least(bytes / 6, 1, 499))}`
}

/** Of these every mistake was found that was ever made. */
const TELLING = [
  'combining marks',
  'blanks',
  'wrong items',
  'a list of texts',
  'tiny messages',
  'many keys',
  'deep lists'
]

const SHALLOW = ['combining marks', 'many keys', 'a list of texts']

/** How many of something fit, also below the greatest number of values that a body may have. */
function least(count: number, values = 1, max = VALUES_MAX): number {
  return Math.max(2, Math.floor(Math.min(count, max / values - 200)))
}

const PLACE = 'THE-PLACE-OF-THE-FIELD'

/** The text of a body whose field holds a shape, as large as the route takes it. */
function bodyOf(valid: unknown, field: string, shape: (bytes: number) => string, limit: number): string {
  // Bodies of the expectations are JSON.
  const frame = JSON.stringify(withField(valid as Json, field.split('.'), PLACE))
  return frame.replace(`"${PLACE}"`, () => shape(limit - frame.length - 16))
}

// --------------------------------------------------------------------------------------------------- the walk

interface Stop {
  readonly name: string
  readonly route: Route
  readonly fields: readonly string[]
}

/** Where bodies are read; of the routes that share a schema and an effect one, unless all of it is wanted. */
function stops(): Stop[] {
  const found = table.flatMap((route) => {
    if (route.body === null) return []
    const known = fieldsOf(route.body)
    const fields = known.length === 0 && route.errors !== 'contract' ? OF_PROTOCOLS : known
    const deeper = fields.flatMap((field) => (DEEPER[field] ?? []).map((inner) => `${field}.${inner}`))
    return [{ name: `${route.method} ${route.path}`, route, fields: [...fields, ...deeper] }]
  })
  const known = new Set<unknown>()
  // The waiting form of a run is over when everything is: it goes first.
  const byEffect = found.toSorted((a, b) => Number(b.name.endsWith('/wait')) - Number(a.name.endsWith('/wait')))
  return WHOLE ? byEffect : byEffect.filter(({ route }) => !known.has(route.body) && known.add(route.body))
}

t.test('every field of every body is known to the walk', async (t) => {
  for (const { name, fields } of stops()) t.ok(fields.length > 0, `${name}: ${fields.join(' ')}`)
})

t.test('[18.A.2] no body that a route takes holds the loop for 250 ms or costs 64 MB', async (t) => {
  const child = await besieged(t, { runs: { active_per_user: 0 }, log_level: 'silent' })
  const admin = new Person(child.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const total = { delay: 0, health: 0, growth: 0 }
  for (const { name, route, fields } of stops()) {
    const worst: Damage & { what: string } = { delay: 0, health: 0, growth: 0, what: '' }
    for (const { what, attack } of attacks(admin, { name, route, fields })) {
      const damage = await withstands(t, child, what, attack)
      if (damage.delay > worst.delay) Object.assign(worst, damage, { what })
      total.delay = Math.max(total.delay, damage.delay)
      total.growth = Math.max(total.growth, damage.growth)
    }
    t.comment(`${name}: at most ${worst.delay.toFixed(0)} ms (${worst.what})`)
  }
  t.comment(`the longest delay ${total.delay.toFixed(0)} ms, the most memory ${total.growth.toFixed(0)} MB`)
})

/** Each by itself where a body can be large, so that one is not blamed for another; the small ones of a field together. */
function attacks(person: Person, { name, route, fields }: Stop): { what: string; attack: () => Promise<void> }[] {
  const limit = Number(route.bodyLimit)
  const valid = EXPECTED[name]?.body
  const kinds = Object.entries(SHAPES).filter(([kind]) => WHOLE || TELLING.includes(kind))
  return fields.flatMap((field) => {
    // Deep in a body everything is tried; above it what schemas have been wrong about.
    const isDeep = WHOLE || field.includes('.') || limit <= BODY_BYTES
    const single = kinds
      .filter(([kind]) => isDeep || SHALLOW.includes(kind))
      .map(([kind, shape]) => ({
        what: `${name} ${field}: ${kind}`,
        attack: () => send(person, name, bodyOf(valid, field, shape, limit))
      }))
    if (limit > BODY_BYTES) return single
    return {
      what: `${name} ${field}`,
      attack: async () => {
        for (const { attack } of single) await attack()
      }
    }
  })
}

/** Sends a body to a route on a thread that nothing else has happened on. */
async function send(person: Person, name: string, body: string): Promise<void> {
  const [method = '', path = ''] = name.split(' ')
  const thread_id = path.includes('{thread_id}') ? await person.thread() : randomUUID()
  const place = { ...nowhere(), thread_id }
  const filled = path.replace(/\{(\w+)\}/g, (_, part: string) => textIn(place, part))
  const answer = await person.ask(method, filled, { body })
  // 501: it is not set up here.
  if (answer.status >= 500 && answer.status !== 501)
    throw new Error(`${name} answered ${answer.status}: ${answer.text.slice(0, 200)}`)
}

t.test('[18.A.2] names of uploads that are long, or heaped up with accents, are passed over at once', async (t) => {
  const child = await besieged(t)
  const person = await signIn(child)
  const thread = await person.thread()
  const names = ['\u0301', 'x', ' ', '/'].map((unit) => `a${unit.repeat(30_000)}`)
  await withstands(t, child, 'names of 60 KB', async () => {
    for (const name of names) {
      const { status, body } = await upload(person, thread, [[name, 'x']])
      t.ok(status < 500 && (status !== 200 || listIn(body, 'files').length === 0), `${name.slice(0, 2)}: ${status}`)
    }
  })
})
