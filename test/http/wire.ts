// The wire: what a stream costs in bytes beside what is said in it [performance 3].
import t, { type Test } from 'tap'
import { openSite, type Person, signIn } from '../fixtures/gateway.ts'
import { type Script, scripted, startModel } from '../fixtures/model.ts'
import { type Frame, textOf } from '../fixtures/stream.ts'

const MODES = ['messages-tuple']
const BESIDE_TEXT = 250
const GROWTH = 2.1
const CALL = [{ name: 'current_time', args: '{}' }]

async function open(t: Test): Promise<Person> {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none' }]
  return signIn(await openSite(t, { config: { models, memory: { enabled: false }, title: { enabled: false } } }))
}

async function framesOf(person: Person, thread: string, script: Script): Promise<readonly Frame[]> {
  return (await person.stream(thread, scripted(script), { stream_mode: MODES })).whole()
}

/** As they go over the wire. */
function bytesOf(frames: readonly Frame[]): number {
  return frames.reduce((sum, frame) => sum + Buffer.byteLength(wireText(frame)), 0)
}

function wireText({ event, data, id }: Frame): string {
  return `event: ${event}\ndata: ${data}\n${id === null ? '' : `id: ${id}\n`}\n`
}

t.test('a frame of a message costs 250 bytes at most beside its text', async (t) => {
  const person = await open(t)
  const frames = await framesOf(person, await person.thread(), { deltas: 500 })
  const shown = frames.filter((frame) => textOf([frame]) !== '')
  t.equal(shown.length, 500)
  const costs = shown.map((frame) => Buffer.byteLength(wireText(frame)) - Buffer.byteLength(textOf([frame])))
  t.comment(`${Math.max(...costs)} bytes at most`)
  t.ok(Math.max(...costs) <= BESIDE_TEXT)
})

t.test('the bytes of a run grow with its deltas and with its steps, and no faster', async (t) => {
  const person = await open(t)
  const runs: Readonly<Record<string, (n: number) => Script>> = {
    deltas: (n) => ({ deltas: n * 20 }),
    steps: (n) => ({ calls: Array.from({ length: n }, () => CALL), text: 'done' })
  }
  for (const [what, script] of Object.entries(runs)) {
    const [small, large] = [
      bytesOf(await framesOf(person, await person.thread(), script(20))),
      bytesOf(await framesOf(person, await person.thread(), script(40)))
    ]
    t.comment(`twice the ${what}: ${(large / small).toFixed(2)}x the bytes`)
    t.ok(large / small <= GROWTH, what)
  }
})

t.test('a delta costs the same bytes behind a long history', async (t) => {
  const person = await open(t)
  const thread = await person.thread()
  const first = bytesOf(await framesOf(person, thread, { deltas: 100 }))
  for (let turn = 0; turn < 50; turn++) await framesOf(person, thread, { deltas: 10, pad: 400 })
  const last = bytesOf(await framesOf(person, thread, { deltas: 100 }))
  t.ok(last <= first * 1.05, `${first} bytes, then ${last}`)
})
