// One cut for every protocol: its client's request, recorded, by plain fetch, is cut at a random byte, and what it sends when it comes back
// brings the rest. What it was told is the state, each part once.
import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Store } from '../../lib/store/store.ts'
import { PROTOCOLS } from '../fixtures/crossing.ts'
import { compare, kept } from '../fixtures/crossings.ts'
import { cutsOf, WAYS } from '../fixtures/cuts.ts'
import { at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'
import { openProxy } from '../fixtures/proxy.ts'
import { Random } from '../fixtures/random.ts'
import { SEED } from '../fixtures/size.ts'
import type { Begun } from '../fixtures/teller.ts'

const ROOMS = new URL('../../../lib/protocols', import.meta.url)
const TALK = '/demo rate=150 deltas=150 reasoning tool=current_time'
/** With the head of the answer. */
const BYTES = [2000, 9000] as const

t.jobs = 4

let store: Store
const behind = (opened: Store) => {
  store = opened
  return opened
}
const site = await openSite(t, { config: { memory: { enabled: false }, title: { enabled: false } }, behind })
const random = new Random(SEED)
t.comment(`seed ${SEED}`)

t.test('every protocol is cut: each room, and each kind of client that runs are crossed by', async (t) => {
  const rooms = readdirSync(ROOMS, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const cut = new Set(Object.values(WAYS).map(({ room }) => room))
  t.strictSame([...cut].toSorted(), rooms.map(({ name }) => name).toSorted())
  for (const [kind, { readsStates }] of Object.entries(PROTOCOLS)) if (!readsStates) t.ok(cutsOf(kind).length > 0, kind)
})

for (const [name, way] of Object.entries(WAYS))
  t.test(`${name}: cut at a random byte, it comes back as its client does and has all of it once`, async (t) => {
    const owner = await signIn(site)
    const { token } = await programOf(owner, ...PERMISSIONS)
    const proxy = await openProxy(t, site.url)
    const bytes = random.between(...BYTES)
    proxy.cutAfter(bytes)
    const seen = await way.send({ url: proxy.url, token }, TALK)
    t.ok(seen.isCut, `cut after ${bytes} bytes`)
    t.equal(proxy.cutsLeft, 0)
    const begun = await begunBy(owner)
    if (way.isOfState)
      await until(async () => at((await owner.get(rowOf(begun))).body, 'status') === 'success', 'its end')
    const told = await way.comeBack({ url: proxy.url, token }, seen)
    compare(t, told, await kept(owner, begun, 'completed'), name)
    t.equal(listIn((await owner.get(`/api/threads/${begun.thread}/runs`)).body).length, 1, 'by one run')
    const [row] = await store.runs.list(begun.thread, { limit: 1, offset: 0 }, null)
    if (way.isSync) t.equal(row!.kwargs.durability, 'sync', 'a number of its never names two texts')
  })

const rowOf = ({ thread, run }: Begun) => `/api/threads/${thread}/runs/${run}`

async function begunBy(owner: Person): Promise<Begun> {
  const [newest] = listIn((await owner.post('/api/threads/search', { limit: 1 })).body)
  const thread = textIn(newest, 'thread_id')
  const [run] = listIn((await owner.get(`/api/threads/${thread}/runs`)).body)
  return { thread, run: textIn(run, 'run_id') }
}

t.test(
  'a completion without a thread is not joined: its run ends when its client has been away for the grace',
  async (t) => {
    const config = { memory: { enabled: false }, title: { enabled: false }, runs: { disconnect_grace_ms: 100 } }
    const site = await openSite(t, { config })
    const owner = await signIn(site)
    const { token } = await programOf(owner, ...PERMISSIONS)
    const proxy = await openProxy(t, site.url)
    proxy.cutAfter(3000)
    const messages = [{ role: 'user', content: '/demo rate=100 deltas=100000' }]
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'idempotency-key': randomUUID()
      },
      body: JSON.stringify({ model: 'lead_agent', stream: true, messages })
    })
    await t.rejects(answer.text())
    await until(() => site.sizes().runs === 0, 'it is given up')
  }
)
