// States as they are shown: what is read is what was shown, byte for byte, and a state stores no more than what is new in it.
import fc from 'fast-check'
import t from 'tap'
import type { Json, JsonObject } from '../../lib/base/types.ts'
import { type Body, bodiesByName, bodyNames, type StoredGraphCheckpoint } from '../../lib/conversation/state.ts'
import {
  isQuestion,
  type NamedValues,
  questionsIn,
  ShownBodies,
  ValuesNamer,
  versionsIn
} from '../../lib/conversation/values.ts'
import { SEED } from '../fixtures/size.ts'

/** A run that shows states, and what is stored of them. */
class Showing {
  readonly own = new Map<string, Body>()
  readonly #namer = new ValuesNamer(0)
  #base: StoredGraphCheckpoint | null = null

  from(base: StoredGraphCheckpoint): this {
    this.#base = base
    this.#namer.open(base)
    return this
  }

  /** Returns the state's names as logged, and how many characters it takes with its new bodies. */
  show(json: string, event = 'values'): { values: NamedValues; size: number; live: string } {
    const { values, added, json: live } = this.#namer.name(event, json)
    let size = JSON.stringify(values).length
    for (const body of added) {
      this.own.set(body.name, body)
      size += body.name.length + body.data.length
    }
    return { values: JSON.parse(JSON.stringify(values)) as NamedValues, size, live: live() }
  }

  /** Reads only the bodies that it names. */
  read(values: NamedValues): string | null {
    const bodies = new ShownBodies()
    const { own, base } = versionsIn(values)
    const stored = bodiesByName(this.#base?.values ?? [])
    for (const name of own.flatMap(bodyNames)) if (this.own.has(name)) bodies.own.set(name, this.own.get(name)!)
    for (const name of base.flatMap(bodyNames)) if (stored.has(name)) bodies.base.set(name, stored.get(name)!)
    return bodies.json(values)
  }
}

const fields = (no: number): JsonObject => ({
  id: `m${no}`,
  content: `"${no}", [{\\" `.repeat(25),
  additional_kwargs: {},
  response_metadata: {}
})
/** As LangChain's serializer writes it. */
const constructed = (no: number): Json => ({
  lc: 1,
  type: 'constructor',
  id: ['langchain_core', 'messages', no % 2 ? 'AIMessage' : 'HumanMessage'],
  kwargs: fields(no)
})
/** As the saver of a graph in Python keeps it. */
const opaque = (no: number): Json => ({
  ...{ id: no % 3 ? `m${no}` : null, type: 'msgpack', data: Buffer.from(`m${no}`).toString('base64') },
  shown: shown(no)
})
const shown = (no: number): Json => ({ ...fields(no), type: no % 2 ? 'ai' : 'human' })
const upTo = (count: number, make: (no: number) => Json) => Array.from({ length: count }, (_, no) => make(no))

function checkpoint(names: StoredGraphCheckpoint['names'], values: Body[]): StoredGraphCheckpoint {
  const place = { thread_id: 't', ns: '', checkpoint_id: 'c', parent_id: null, run_id: null }
  return { ...place, checkpoint: '{}', metadata: '{}', names, values, writes: [] }
}

t.test('a state that is shown in steps takes what is new, however long its list is', async (t) => {
  const showing = new Showing()
  const sizes: number[] = []
  for (let count = 1; count <= 500; count++) {
    const json = JSON.stringify({ messages: upTo(count, shown), title: 'T' })
    const { values, size, live } = showing.show(json)
    sizes.push(size)
    if (count % 50 !== 0) continue
    t.equal(live, json, 'in memory')
    t.equal(showing.read(values), json, 'stored')
  }
  t.ok(Math.max(...sizes) < JSON.stringify(shown(499)).length + 200, `${Math.max(...sizes)} characters`)
})

t.test('what the run starts from is named as the checkpoint has it: one body, or parts of a list', async (t) => {
  const all = upTo(200, constructed)
  const parts = all.map((one, no) => ({
    name: `messages#${String(no).padStart(10, '0')}`,
    type: 'json',
    data: JSON.stringify(one)
  }))
  const bases = {
    'one body': checkpoint(['messages 2'], [{ name: 'messages 2', type: 'json', data: JSON.stringify(all) }]),
    parts: checkpoint([{ name: 'messages 2', parts: [[0, 199]] }], parts),
    'opaque ones': checkpoint(
      ['messages 2'],
      [{ name: 'messages 2', type: 'json', data: JSON.stringify(upTo(200, opaque)) }]
    )
  }
  for (const [what, base] of Object.entries(bases)) {
    const showing = new Showing().from(base)
    const json = JSON.stringify({ messages: [...upTo(200, shown), shown(200)] })
    const { values, size } = showing.show(json)
    t.equal(showing.read(values), json, what)
    t.ok(size < JSON.stringify(shown(200)).length + 200, `${what}: ${size} characters`)
    t.equal(versionsIn(values).base.length, 1, `${what}: it names the base`)
  }
})

t.test(
  'a body that is not shown as it is stored is not named, and nothing is shown in place of one that is gone',
  async (t) => {
    const base = checkpoint(
      ['messages 1'],
      [{ name: 'messages 1', type: 'json', data: JSON.stringify(upTo(9, constructed)) }]
    )
    const showing = new Showing().from(base)
    const other = JSON.stringify({ messages: upTo(9, (no) => ({ ...fields(no), type: 'human', more: true })) })
    const { values } = showing.show(other)
    t.strictSame(versionsIn(values).base, [])
    t.equal(showing.read(values), other)
    showing.own.clear()
    t.equal(showing.read(values), null)
  }
)

t.test('questions stand in the frame', async (t) => {
  const asked = [{ id: 'q', value: 'long? '.repeat(100) }]
  const showing = new Showing()
  const both = showing.show(JSON.stringify({ messages: upTo(3, shown), __interrupt__: asked })).values
  t.strictSame([isQuestion(both), questionsIn(both)], [false, asked])
  const only = showing.show(JSON.stringify({ __interrupt__: asked })).values
  t.strictSame([isQuestion(only), questionsIn(only)], [true, asked])
  t.equal(questionsIn(showing.show('{}').values), null)
})

t.test('the state of a graph inside of a graph begins with what the outer one has shown', async (t) => {
  const showing = new Showing()
  showing.show(JSON.stringify({ messages: upTo(100, shown) }))
  const json = JSON.stringify({ messages: upTo(101, shown) })
  const { values, size } = showing.show(json, 'values|inner:1')
  t.equal(values.event, 'values|inner:1')
  t.equal(showing.read(values), json)
  t.ok(size < JSON.stringify(shown(100)).length + 200, `${size} characters`)
})

t.test('any states that follow each other are read as they were shown', async () => {
  const long = fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 60 })
  const value = fc.oneof(
    fc.jsonValue(),
    long,
    fc.array(fc.record({ id: fc.string(), content: fc.string({ maxLength: 400 }) }))
  )
  const states = fc.array(
    fc.dictionary(fc.oneof(fc.constantFrom('messages', 'a', 'b c', '"', ''), fc.string()), value),
    {
      minLength: 1,
      maxLength: 8
    }
  )
  fc.assert(
    fc.property(states, fc.array(fc.string()), (given, odd) => {
      const showing = new Showing()
      const texts = [...given.map((state) => JSON.stringify(state)), ...odd, '[]', '{"a" :1}', '{"a":1,"a":2}']
      const all = texts.map((json) => [json, showing.show(json)] as const)
      return all.every(([json, { values, live }]) => live === json && showing.read(values) === json)
    }),
    { seed: SEED, numRuns: 300 }
  )
})
