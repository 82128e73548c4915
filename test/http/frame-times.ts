// When the frames of a run were stored: what replays a run at its own pace goes by it.
import t from 'tap'
import { at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'

interface Times {
  readonly times: readonly { readonly n: number; readonly at: string }[]
  readonly next: number | null
}

async function timesOf(person: Person, path: string, query = ''): Promise<Times> {
  const { status, body } = await person.get(`${path}/frames${query}`)
  if (status !== 200) throw new Error(`answered ${status}`)
  const times = listIn(at(body, 'times')).map((one) => ({ n: Number(at(one, 'n')), at: textIn(one, 'at') }))
  return { times, next: at(body, 'next') === null ? null : Number(at(body, 'next')) }
}

t.test('times of frames are those of the run, in order, in pages and from any frame', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = await person.thread()
  const before = Date.now()
  const { body } = await person.post(`/api/threads/${thread}/runs/wait`, {
    input: { messages: [{ role: 'user', content: '/demo deltas=40 rate=80' }] }
  })
  t.ok(body)
  const run = textIn((await person.get(`/api/threads/${thread}/runs`)).body, 0, 'run_id')
  const path = `/api/threads/${thread}/runs/${run}`
  const whole = await timesOf(person, path)
  t.match(
    await person.get(`${path}/frames?from=${2 ** 31 - 1}`),
    { status: 200, body: { times: [] } },
    'the last there may be'
  )
  for (const from of [2 ** 31, Number.MAX_SAFE_INTEGER])
    t.match(await person.get(`${path}/frames?from=${from}`), { status: 422 }, 'more than PostgreSQL takes')
  const stamps = whole.times.map((one) => Date.parse(one.at))
  t.ok(whole.times.length > 5, `${whole.times.length} entries`)
  t.equal(whole.times[0]!.n, 0)
  t.equal(whole.next, null)
  t.same(
    stamps,
    stamps.toSorted((a, b) => a - b)
  )
  t.ok(stamps[0]! >= before - 1000 && stamps.at(-1)! <= Date.now() + 1000)
  t.ok(stamps.at(-1)! - stamps[0]! >= 250, 'half a second of words was not stored at once')

  const paged: { n: number; at: string }[] = []
  for (let from: number | null = 0; from !== null; ) {
    const page: Times = await timesOf(person, path, `?limit=2&from=${from}`)
    paged.push(...page.times)
    from = page.next
  }
  t.same(paged, whole.times)
  const [, second, third] = whole.times
  const inside = await timesOf(person, path, `?from=${third!.n - 1}`)
  t.same(inside.times.at(1), third)
  t.same(inside.times[0], { n: third!.n - 1, at: second!.at }, 'a frame has the time of its segment')
  t.same((await timesOf(person, path, '?from=100000')).times, [])
  for (const query of ['?limit=0', '?from=-1', '?limit=2001', '?from=x'])
    t.equal((await person.get(`${path}/frames${query}`)).status, 422, query)
})
