// Long lists in parts: what is read is what was written, byte for byte, and a version stores no more than what is new in it.
import fc from 'fast-check'
import t from 'tap'
import { type DividedList, divided, rangesOf } from '../../lib/conversation/list.ts'
import { type Body, bodiesByName, bodyNames, partName, partsOf, wholeBody } from '../../lib/conversation/state.ts'
import type { Json } from '../../lib/base/types.ts'
import { SEED } from '../fixtures/size.ts'

/** A channel whose versions are stored one after the other. */
class Channel {
  readonly bodies: Body[] = []
  #version: Parameters<typeof partsOf>[0]
  #written = 0

  /** Stores a version. Returns what it takes, in characters; null: it is stored as one body. */
  write(data: string): number | null {
    const list = divided({ type: 'json', data }, partsOf(this.#version, bodiesByName(this.bodies)))
    const name = `list ${++this.#written}`
    this.#version = list ? this.#divide(name, list) : name
    if (!list) this.bodies.push({ name, type: 'json', data })
    return list?.added.reduce((sum, text) => sum + text.length, 0) ?? null
  }

  #divide(name: string, list: DividedList): Parameters<typeof partsOf>[0] {
    const from = this.bodies.length
    for (const [at, data] of list.added.entries())
      this.bodies.push({ name: partName('list', from + at), type: 'json', data })
    return { name, parts: rangesOf(list, from) }
  }

  read(): string | undefined {
    return wholeBody(this.#version!, bodiesByName(this.bodies))?.data
  }

  get parts(): number {
    return bodyNames(this.#version!).length
  }

  get ranges(): number {
    return typeof this.#version === 'string' ? 0 : this.#version!.parts.length
  }
}

const message = (no: number, length = 300) => ({
  id: `m${no}`,
  content: `"${no}", [{\\" `.repeat(length / 12),
  tool_calls: []
})
const messages = (count: number, from = 0) => Array.from({ length: count }, (_, at) => message(from + at))

t.test('a list that grows stores what is new, however long it is', async (t) => {
  const channel = new Channel()
  const list: Json[] = []
  const taken: number[] = []
  for (let no = 0; no < 1000; no++) {
    list.push(message(no))
    taken.push(channel.write(JSON.stringify(list)) ?? 0)
    if (no % 100 === 99) t.equal(channel.read(), JSON.stringify(list))
  }
  const one = JSON.stringify(message(999)).length
  t.ok(
    taken.slice(100).every((length) => length <= one),
    'one message each'
  )
  t.ok(channel.ranges <= 2, 'and its head stays short')
})

t.test('a list that loses its beginning, its end, or changes in the middle stores what is new', async (t) => {
  const channel = new Channel()
  const list: Json[] = []
  for (let no = 0; no < 100; no++) {
    list.push(message(no))
    channel.write(JSON.stringify(list))
  }
  const one = JSON.stringify(message(100)).length
  const changes: Record<string, () => void> = {
    'loses its beginning': () => void list.splice(0, 30),
    'loses its beginning and grows': () => {
      list.splice(0, 5)
      list.push(message(200))
    },
    'loses its end': () => void list.splice(-20),
    'changes in the middle': () => void list.splice(20, 1, message(300)),
    'loses one in the middle': () => void list.splice(25, 1)
  }
  for (const [what, change] of Object.entries(changes)) {
    change()
    const taken = channel.write(JSON.stringify(list))
    t.ok(taken !== null && taken <= 2 * one, `${what}: ${taken}`)
    t.equal(channel.read(), JSON.stringify(list), what)
  }
})

t.test('what is short, or no list, or not JSON, is one body', async (t) => {
  const long = 'x'.repeat(10_000)
  for (const [type, data] of [
    ['json', JSON.stringify(messages(2))],
    ['json', JSON.stringify({ long })],
    ['json', JSON.stringify(long)],
    ['base64 bytes', `[${long}]`]
  ] as const)
    t.equal(divided({ type, data }, []), null)
})

t.test('a list of many small elements has few parts, and one that is torn to shreds is written anew', async (t) => {
  const numbers = new Channel()
  numbers.write(JSON.stringify(Array.from({ length: 20_000 }, (_, at) => at)))
  t.ok(numbers.parts <= 64, `${numbers.parts} parts`)
  const channel = new Channel()
  const list: Json[] = messages(400)
  for (let no = 0; no < list.length; no++) channel.write(JSON.stringify(list.slice(0, no + 1)))
  for (let at = 0; at < list.length; at += 2) {
    list[at] = message(1000 + at)
    channel.write(JSON.stringify(list))
    if (channel.ranges > 64) t.fail(`${channel.ranges} ranges`)
  }
  t.equal(channel.read(), JSON.stringify(list))
})

t.test('whatever a list becomes, also texts that are no JSON, it is read as it was written', async () => {
  const element = fc.oneof(
    fc.json({ maxDepth: 3 }),
    fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
    fc.constantFrom('1', '12', '""', '"', ',', '\\', '[', '{"a":[1,2]}', '')
  )
  const texts = fc.array(element, { maxLength: 40 })
  const change = fc.record({ from: fc.nat(60), removed: fc.nat(20), added: texts })
  fc.assert(
    fc.property(texts, fc.array(change, { maxLength: 12 }), (first, changes) => {
      const channel = new Channel()
      // So long that it is divided.
      const list = [`"${'long '.repeat(1000)}"`, ...first]
      for (const { from, removed, added } of [{ from: 0, removed: 0, added: [] }, ...changes]) {
        list.splice(from, removed, ...added)
        const data = `[${list.join(',')}]`
        channel.write(data)
        if (channel.read() !== data) return false
      }
      return true
    }),
    { seed: SEED, numRuns: 2000 }
  )
})
