// Crossing: a run that was begun in any protocol is joined in any other, in mid-run and after its end. All of them are told the same.
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Timestamp } from '../../lib/base/types.ts'
import type { Begun, Status, Told } from '../fixtures/crossing.ts'
import { BEGINNERS, READERS } from '../fixtures/crossing-ways.ts'
import { partsOfMessages } from '../../lib/protocols/parts.ts'
import type { Store } from '../../lib/store/store.ts'
import { write } from '../contract/harness.ts'
import { at, homeOf, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'

const TALK = 'reasoning tool=write_file args={"path":"a.txt","content":"hi 𝕏"}'
/** What is said before the arguments of its call come: its reasoning, and the call's name. */
const SAID = 21
const ENDINGS: readonly (readonly [Status, string])[] = [
  ['completed', `/demo rate=100 deltas=60 ${TALK}`],
  ['failed', `/demo error rate=100 deltas=60 ${TALK}`],
  ['cancelled', '/demo rate=100 deltas=100000 reasoning'],
  ['cancelled', `/demo rate=100 pause=${SAID}:60000 ${TALK}`],
  [
    'asked',
    '/demo rate=100 deltas=60 reasoning tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'
  ]
]

const config = { memory: { enabled: false }, title: { enabled: false } }
const home = homeOf(t)
let store: Store
const behind = (opened: Store) => {
  store = opened
  return opened
}
const site = await openSite(t, { config, home, behind })
const owner = await signIn(site)
const person = await programOf(owner, ...PERMISSIONS)

/** What the state of its thread has of a run, and its row. */
async function kept({ thread, run }: Begun, status: Status): Promise<Told> {
  const { body } = await owner.get(`/api/threads/${thread}/state`)
  const all = listIn(body, 'values', 'messages')
  const answers = all.filter((one) => at(one, 'type') === 'ai')
  const results = all.filter((one) => at(one, 'type') === 'tool' && !at(one, 'artifact', 'human_input'))
  const calls = answers.flatMap((one) => (at(one, 'tool_calls') as unknown[]) ?? [])
  const row = (await owner.get(`/api/threads/${thread}/runs/${run}`)).body
  return {
    text: answers.map((one) => textIn(one, 'content')).join(''),
    reasoning: answers.map((one) => at(one, 'additional_kwargs', 'reasoning_content') ?? '').join(''),
    tools: calls.map((call) => ({
      name: textIn(call, 'name'),
      result:
        (at(
          results.find((one) => at(one, 'tool_call_id') === at(call, 'id')),
          'content'
        ) as string) ?? null,
      args: at(call, 'args')
    })),
    usage: [Number(at(row, 'total_input_tokens')), Number(at(row, 'total_output_tokens'))],
    status
  }
}

/** In the midst of its answer, or of a call. */
async function cancel(row: string): Promise<void> {
  const stream = await owner.join(row, null, ['messages-tuple'])
  await stream.until(({ frames }) => frames.length >= 40 || frames.some(({ data }) => data.includes('write_file')))
  stream.leave()
  await owner.post(`${row}/cancel?wait=true`)
}

/** How each protocol tells a run. */
async function readings(person: Person, begun: Begun): Promise<Map<string, () => Promise<Told>>> {
  const opened = await Promise.all(
    Object.entries(READERS).map(async ([name, read]) => [name, await read(person, begun)] as const)
  )
  return new Map(opened)
}

/** Runs that have ended, with what their threads have of them. */
const ended: { readonly name: string; readonly begun: Begun; readonly state: Told }[] = []

for (const [status, words] of ENDINGS)
  for (const [name, begin] of Object.entries(BEGINNERS))
    t.test(
      `begun in ${name}, a run that is ${status}${words.includes('pause') ? ' within a call' : ''} is the same in every protocol, in mid-run and after`,
      async (t) => {
        const begun = await begin(person, words)
        const joined = await readings(person, begun)
        const row = `/api/threads/${begun.thread}/runs/${begun.run}`
        t.match(at((await owner.get(row)).body, 'status'), /pending|running/, 'they came in mid-run')
        if (status === 'cancelled') await cancel(row)
        const live = new Map<string, Told>()
        for (const [reader, told] of joined) live.set(reader, await told())
        const state = await kept(begun, status)
        ended.push({ name, begun, state })
        t.not(state.text + state.reasoning, '', 'it has said something')
        const after = await readings(person, begun)
        for (const [reader, told] of after) {
          const { usage, ...later } = await told()
          const { usage: then, ...now } = live.get(reader)!
          const { usage: spent, ...rest } = state
          t.strictSame(now, rest, `${reader}, in mid-run`)
          t.strictSame(later, rest, `${reader}, after`)
          for (const one of [usage, then]) if (one) t.strictSame(one, spent, `${reader}: tokens`)
        }
      }
    )

t.test('a lone half of a character is told as the one that stands for it, wherever it is', async (t) => {
  const parts = partsOfMessages([{ type: 'ai', id: 'm', content: 'a\ud800b\udc00c\ud83d' }])
  t.equal(parts.map((part) => (part.type === 'delta' ? part.text : '')).join(''), 'a\ufffdb\ufffdc\ufffd')
})

/** Their clients are sent the state itself where frames are gone. */
const OWN = ['Colloquy', 'LangGraph v1', 'LangGraph v2']

t.test('a day later, when its frames are gone, and on another process, a run is still the same', async (t) => {
  const before = new Date(Date.now() + 3_600_000).toISOString() as Timestamp
  await write(store, { name: 'frames.sweep', before, after: 0, limit: 100_000 })
  await site.stop()
  const later = await openSite(t, { config, home })
  person.url = owner.url = later.url
  for (const { name, begun, state } of ended)
    for (const [reader, read] of Object.entries(READERS)) {
      if (OWN.includes(reader)) continue
      const { usage, ...told } = await (await read(person, begun))()
      const { usage: spent, ...rest } = state
      t.strictSame(told, rest, `begun in ${name}, read in ${reader}`)
      if (usage) t.strictSame(usage, spent, `begun in ${name}, read in ${reader}: tokens`)
    }
})
