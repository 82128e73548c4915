// What a client sends, understood or refused: targets, cookies, fields, JSON, and what a schema says about them.
import type { IncomingMessage } from 'node:http'
import fc from 'fast-check'
import t from 'tap'
import * as v from 'valibot'
import { Invalid, type Issue } from '../../lib/base/errors.ts'
import { cookieOf, fieldsOf, targetOf } from '../../lib/http/request.ts'
import { parseJson } from '../../lib/http/body.ts'
import * as schema from '../../lib/http/schema.ts'

// The parts of a request that are read here.
const given = (parts: { url?: string; headers?: Record<string, string> }) =>
  ({ headers: {}, socket: {}, ...parts }) as unknown as IncomingMessage

function issuesOf(work: () => unknown): readonly Issue[] {
  try {
    work()
  } catch (error) {
    if (error instanceof Invalid) return error.detail
    throw error
  }
  return []
}

t.test('a target is path and query, whatever form the request line has', async (t) => {
  t.strictSame(targetOf(given({ url: '/a/b?x=1?y' })), { path: '/a/b', search: 'x=1?y' })
  t.strictSame(targetOf(given({ url: 'http://host:1/a?b' })), { path: '/a', search: 'b' })
  t.strictSame(targetOf(given({ url: 'http://host' })), { path: '/', search: '' })
  t.strictSame(targetOf(given({ url: '*' })), { path: '*', search: '' })
  t.strictSame(targetOf(given({ url: '/a?u=http://x/' })), { path: '/a', search: 'u=http://x/' })
})

t.test('of two cookies with one name the first counts, and what is no pair is passed over', async (t) => {
  const cookie = (header: string) => cookieOf(given({ headers: { cookie: header } }), 'a')
  t.equal(cookie('b=0; a=1; a=2'), '1')
  t.equal(cookie('a="quoted"'), 'quoted')
  t.equal(cookie('a="unclosed'), '"unclosed')
  t.equal(cookie('a=x=y'), 'x=y')
  t.equal(cookie('a='), '')
  for (const none of ['', 'a', '=;=;=', '; ; ;', 'aa=1', 'x'.repeat(8_000)])
    t.equal(cookie(none), undefined, none.slice(0, 20))
  t.equal(cookieOf(given({}), 'a'), undefined)
})

t.test('fields never throw, the last of a name counts, and __proto__ is a name', async (t) => {
  t.strictSame({ ...fieldsOf('a=1&b=%zz&a=2&&===&c') }, { a: '2', b: '%zz', '': '==', c: '' })
  const fields = fieldsOf('__proto__=x&constructor=y')
  t.equal(Object.getPrototypeOf(fields), null)
  t.equal(fields.constructor, 'y')
})

t.test('what is no JSON is refused with its position and without its text', async (t) => {
  for (const text of ['{', '{"a":', 'nope', '{"a":1}}', '[1,', '"', "{'a':1}", '\0', '{"a":1,}', 'NaN', '']) {
    const [issue] = issuesOf(() => parseJson(Buffer.from(text)))
    t.match(issue, { type: 'json_invalid', loc: ['body', Number], msg: 'JSON decode error' }, JSON.stringify(text))
  }
  const leaked = issuesOf(() => parseJson(Buffer.from('{"password": hunter2}')))
  t.notMatch(JSON.stringify(leaked), /hunter2/)
  t.strictSame(issuesOf(() => parseJson(Buffer.from('{"a":1}}')))[0]?.loc, ['body', 7])
})

t.test('a byte order mark is no mistake; other encodings are', async (t) => {
  t.strictSame(parseJson(Buffer.from('\ufeff{"a":"é😀"}')), { a: 'é😀' })
  for (const bytes of [
    Buffer.from([0x22, 0xff, 0x22]),
    Buffer.from('{"a":1}', 'utf16le'),
    Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])
  ]) {
    t.match(
      issuesOf(() => parseJson(bytes)),
      [{ type: 'json_invalid' }]
    )
  }
})

t.test('nesting beyond all sense is refused before anything recurses over it', async (t) => {
  const nested = (levels: number) => Buffer.from('['.repeat(levels) + ']'.repeat(levels))
  t.match(
    issuesOf(() => parseJson(nested(100_000))),
    [{ type: 'json_invalid', ctx: { error: 'nested too deeply' } }]
  )
  t.match(
    issuesOf(() => parseJson(Buffer.from(`${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`))),
    [{ type: 'json_invalid' }]
  )
  t.ok(parseJson(nested(500)))
  t.match(
    issuesOf(() => parseJson(Buffer.from(`[${'['.repeat(500)}${']'.repeat(500)}]`))),
    [{ type: 'json_invalid' }]
  )
})

t.test('brackets and quotes inside of texts are no nesting', async (t) => {
  const text = JSON.stringify({ a: '['.repeat(5_000), b: '\\"[{'.repeat(2_000), c: '\\', d: '{'.repeat(900) })
  t.strictSame(parseJson(Buffer.from(text)), JSON.parse(text))
})

t.test('every JSON value comes through unchanged', async (t) => {
  fc.assert(
    fc.property(fc.json({ noUnicodeString: false } as object), fc.nat(3_000), (text, padding) => {
      const padded = `{"pad":"${'x'.repeat(padding)}","value":${text}}`
      if (/__proto__/.test(padded)) return true
      return JSON.stringify(parseJson(Buffer.from(padded))) === JSON.stringify(JSON.parse(padded))
    })
  )
  t.pass()
})

t.test('a key __proto__ is refused at every level, however it is written', async (t) => {
  for (const text of [
    '{"__proto__":{"polluted":1}}',
    '{"metadata":{"__proto__":1}}',
    '{"a":[{"\\u005f_proto__":{"polluted":1},"keep":1}]}',
    ...[...'__proto__'].map((letter, at) => {
      const escaped = `\\u00${letter.charCodeAt(0).toString(16)[at % 2 === 0 ? 'toUpperCase' : 'toLowerCase']()}`
      return `{"a":{"${'__proto__'.slice(0, at)}${escaped}${'__proto__'.slice(at + 1)}":{"polluted":1}}}`
    })
  ]) {
    const [found] = issuesOf(() => parseJson(Buffer.from(text)))
    t.match(found, { type: 'json_invalid', ctx: { error: '__proto__ is not allowed as a key' } }, text)
  }
  const kept = '{"constructor":{"prototype":{"polluted":1}},"text":"__proto__"}'
  t.equal(JSON.stringify(parseJson(Buffer.from(kept))), kept)
})

const Body = v.object({
  email: v.string(),
  password: v.optional(v.pipe(v.string(), v.minLength(8))),
  limit: v.optional(schema.integer({ min: 1, max: 1000 }), 100),
  metadata: v.optional(schema.jsonObject),
  wait: v.optional(v.boolean()),
  tags: v.optional(v.array(v.string())),
  mode: v.optional(v.picklist(['a', 'b', 'c'])),
  keep: v.nullish(
    v.pipe(
      v.string(),
      v.check((text) => text !== 'no', 'Value error, not this one')
    )
  ),
  inner: v.optional(schema.objectOf({ confidence: v.pipe(v.number(), v.minValue(0), v.maxValue(1)) })),
  either: v.optional(v.union([v.array(v.string()), v.literal('*')]))
})
const mistakes = (more: object, base: object = { email: 'a' }) =>
  issuesOf(() => schema.check(Body, { ...base, ...more }, 'body'))

t.test('each mistake has the type, the place and the words that clients know', async (t) => {
  const cases: [object, object][] = [
    [{ email: 1 }, { type: 'string_type', loc: ['body', 'email'], msg: 'Input should be a valid string', input: 1 }],
    [
      { limit: 0 },
      { type: 'greater_than_equal', msg: 'Input should be greater than or equal to 1', ctx: { ge: 1 }, input: 0 }
    ],
    [
      { limit: 1001 },
      { type: 'less_than_equal', msg: 'Input should be less than or equal to 1000', ctx: { le: 1000 } }
    ],
    [{ limit: 1.5 }, { type: 'int_from_float' }],
    [{ limit: 'many' }, { type: 'int_parsing', input: 'many' }],
    [{ limit: null }, { type: 'int_type' }],
    [{ limit: 1e300 }, { type: 'int_parsing_size' }],
    [{ limit: Number.POSITIVE_INFINITY }, { type: 'finite_number' }],
    [{ metadata: [] }, { type: 'dict_type', loc: ['body', 'metadata'], msg: 'Input should be a valid dictionary' }],
    [{ metadata: 'x' }, { type: 'dict_type', input: 'x' }],
    [{ wait: 'maybe' }, { type: 'bool_type' }],
    [{ tags: 'x' }, { type: 'list_type' }],
    [{ tags: ['a', 1] }, { type: 'string_type', loc: ['body', 'tags', 1] }],
    [
      { mode: 'z' },
      { type: 'literal_error', msg: "Input should be 'a', 'b' or 'c'", ctx: { expected: "'a', 'b' or 'c'" } }
    ],
    [{ keep: 'no' }, { type: 'value_error', msg: 'Value error, not this one' }],
    [{ inner: [] }, { type: 'dict_type', loc: ['body', 'inner'] }],
    [{ inner: {} }, { type: 'missing', loc: ['body', 'inner', 'confidence'], msg: 'Field required' }],
    [{ inner: { confidence: 2 } }, { type: 'less_than_equal', loc: ['body', 'inner', 'confidence'] }],
    [{ either: 5 }, { type: 'list_type', loc: ['body', 'either'] }]
  ]
  for (const [more, expected] of cases) t.match(mistakes(more)[0], expected, JSON.stringify(more))
  t.strictSame(mistakes({ keep: null, limit: 5, either: '*' }), [])
})

t.test(
  '[Auth 8] a missing field says so, a short password says how long, and no password is ever repeated',
  async (t) => {
    t.strictSame(mistakes({ password: 's3cr3t!' }, {}), [
      { type: 'missing', loc: ['body', 'email'], msg: 'Field required' },
      {
        type: 'string_too_short',
        loc: ['body', 'password'],
        msg: 'String should have at least 8 characters',
        ctx: { min_length: 8 }
      }
    ])
  }
)

t.test('large and deep inputs are not repeated', async (t) => {
  t.equal(String(mistakes({ limit: 'x'.repeat(10_000) })[0]?.input).length, 201)
  t.notOk(Object.hasOwn(mistakes({ email: { password: 'x' } })[0] ?? {}, 'input'))
  t.equal(mistakes({ tags: Array(100_000).fill(1) }).length, 20)
})

t.test('a schema drops what it does not name and keeps objects as they are', async (t) => {
  const metadata = { constructor: 1, '': { a: [] } }
  t.strictSame(schema.check(Body, { email: 'a', other: 1, metadata }, 'body'), { email: 'a', limit: 100, metadata })
})

const Query = v.object({
  limit: v.optional(schema.queryInteger({ min: 1, max: 200 }), '50'),
  before_seq: v.optional(schema.queryInteger({ min: 1 })),
  wait: v.optional(schema.queryBoolean, 'false')
})
const query = (search: string) => schema.check(Query, fieldsOf(search), 'query')

t.test('whole numbers in a query are decimal digits', async (t) => {
  t.strictSame(query(''), { limit: 50, wait: false })
  t.match(query('limit=1&limit=7'), { limit: 7 })
  for (const bad of [
    '',
    'x',
    '1e3',
    '0x10',
    '1.5',
    '١',
    'Infinity',
    '%20',
    '1%20',
    '%',
    '--1',
    '9007199254740993',
    '0',
    '-1',
    '201'
  ]) {
    t.match(
      issuesOf(() => query(`limit=${bad}`)),
      [{ loc: ['query', 'limit'] }],
      bad
    )
  }
  t.match(
    issuesOf(() => query('limit=1e3')),
    [{ type: 'int_parsing', input: '1e3' }]
  )
  t.match(
    issuesOf(() => query('before_seq=9007199254740993')),
    [{ type: 'int_parsing_size' }]
  )
})

t.test('yes and no in a query are true, false, 1 and 0', async (t) => {
  for (const word of ['true', 'True', '1']) t.equal(query(`wait=${word}`).wait, true)
  for (const word of ['false', 'FALSE', '0']) t.equal(query(`wait=${word}`).wait, false)
  for (const word of ['yes', '2', ''])
    t.match(
      issuesOf(() => query(`wait=${word}`)),
      [{ type: 'bool_parsing' }]
    )
})
