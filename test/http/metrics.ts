// What the process says of itself: figures for Prometheus, and whether it is ready [needs N30].
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { type PeerListener, type Peers, type Store, StoreUnavailable } from '../../lib/store/store.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, openSite, type Person, PASSWORD, type Site, signIn, type SiteOptions } from '../fixtures/gateway.ts'
import { until } from '../fixtures/until.ts'

/** Who waits for a lock on the database waits so long. */
const LOCK_WAIT_MS = 5000

/** A site with a port for metrics, and what it answers there. */
async function watched(
  t: Test,
  options: Omit<SiteOptions, 'config'> = {}
): Promise<{ site: Site; figures: () => Promise<Figures> }> {
  const port = await freePort()
  const site = await openSite(t, { ...options, config: { metrics: { port } } })
  const figures = async () => figuresIn(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text())
  return { site, figures }
}

type Figures = ReadonlyMap<string, number>

/** What the text has a TYPE line for. */
async function declaredNames(t: Test): Promise<ReadonlySet<string>> {
  const port = await freePort()
  await openSite(t, { config: { metrics: { port } } })
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!))
}

/** By name with labels, as they stand in the text. */
function figuresIn(text: string): Figures {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line): [string, number] => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))])
  )
}

function of(figures: Figures, name: string): number {
  const figure = figures.get(name)
  if (figure === undefined) throw new Error(`there is no ${name} among\n${[...figures.keys()].join('\n')}`)
  return figure
}

async function admin(site: Site): Promise<Person> {
  const person = await signIn(site, 'first')
  await person.post('/api/v1/auth/logout')
  const email = 'admin@example.com'
  const made = await person.post('/api/v1/auth/initialize', { email, password: PASSWORD })
  if (made.status !== 201) throw new Error(`initialize answered ${made.status}`)
  return person
}

t.test(
  'the last hour is kept in columns from when an administrator first looks, and what is known is not sent again',
  async (t) => {
    const site = await openSite(t)
    t.equal((await (await signIn(site)).get('/metrics/hour')).status, 403)
    const boss = await admin(site)
    const hour = async (after: number) =>
      (await boss.get(`/metrics/hour?after=${after}`)).body as {
        at: number[]
        values: Record<string, (number | null)[]>
      }
    const first = await hour(0)
    t.equal(first.at.length, 1)
    t.ok(first.values.colloquy_streams_open, 'a gauge')
    t.ok(first.values.colloquy_commit_duration_seconds_count, 'a histogram by its count')
    t.notOk(Object.keys(first.values).some((name) => name.includes('_bucket')))
    for (const column of Object.values(first.values)) t.equal(column.length, 1)
    t.same((await hour(Math.ceil(Date.now() / 1000) + 60)).at, [])
  }
)

t.test('metrics are for administrators', async (t) => {
  const site = await openSite(t, {})
  t.equal((await fetch(`${site.url}/metrics`)).status, 401)
  t.equal((await (await signIn(site)).get('/metrics')).status, 403)
  const { status, headers, text } = await (await admin(site)).get('/metrics')
  t.equal(status, 200)
  t.match(headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  t.match(text, /^# TYPE colloquy_streams_open gauge$/m)
})

t.test('on the port for metrics nobody is asked who he is, and nothing else is answered', async (t) => {
  const port = await freePort()
  await openSite(t, { config: { metrics: { port } } })
  const at = (path: string) => fetch(`http://127.0.0.1:${port}${path}`)
  t.equal((await at('/metrics')).status, 200)
  t.equal((await at('/readyz')).status, 200)
  t.not((await at('/api/models')).status, 200)
})

t.test('what streams, what was delivered and what was stored is told', async (t) => {
  const { site, figures } = await watched(t)
  const person = await signIn(site)
  const before = await figures()
  const thread = await person.thread()
  const stream = await person.stream(thread, '/demo deltas=20 rate=40', { stream_mode: ['messages-tuple'] })
  await stream.untilFrames(5)
  const during = await figures()
  t.equal(of(during, 'colloquy_streams_open'), 1)
  t.equal(of(during, 'colloquy_joiners'), 1)
  t.equal(of(during, 'colloquy_runs{status="running"}'), 1)
  const frames = await stream.whole()
  await until(async () => of(await figures(), 'colloquy_streams_open') === 0, 'the end of the stream')
  const after = await figures()
  const more = (name: string) => of(after, name) - (before.get(name) ?? 0)
  // All but the last one, which follows from the run's status.
  t.equal(more('colloquy_frames_delivered_total'), frames.length - 1)
  t.ok(more('colloquy_delivered_bytes_total') > 20 * 100)
  t.equal(more('colloquy_run_duration_seconds_count{status="success"}'), 1)
  t.ok(more('colloquy_frames_stored_total') >= frames.length - 1)
  t.ok(more('colloquy_events_stored_total') >= 2)
  t.ok(more('colloquy_commit_duration_seconds_count') >= 2)
  t.ok(more('colloquy_fan_out_lag_seconds_count') >= 2)
  t.ok(more('colloquy_fan_out_lag_seconds_bucket{le="+Inf"}') >= 2)
  t.equal(of(after, 'colloquy_runs{status="running"}'), 0)
  t.equal(of(after, 'colloquy_commit_queue'), 0)
  t.ok(of(after, 'colloquy_store_bytes{part="database"}') > 0)
  t.ok(after.has('colloquy_store_bytes{part="wal"}'))
  t.ok(of(after, 'colloquy_event_loop_delay_seconds_count') > 0)
  t.ok(more('colloquy_run_queue_seconds_count') >= 1)
  const created = 'method="POST",route="/api/threads",status="200"'
  t.equal(more(`colloquy_http_request_duration_seconds_count{${created}}`), 1, 'ids are no labels')
  t.ok(of(after, 'nodejs_heap_size_used_bytes') > 0)
  t.ok(of(after, 'process_open_fds') > 0)
  t.ok([...after.keys()].some((name) => name.startsWith('colloquy_build_info{')))
  for (const name of ['colloquy_gaps_total', 'colloquy_streams_evicted_total']) t.equal(more(name), 0)
})

t.test('a database that fails, or does not answer, costs the figures of it alone', async (t) => {
  let counts: Store['jobs']['counts'] | null = null
  const { figures } = await watched(t, {
    behind: (store) => ({ ...store, jobs: { ...store.jobs, counts: () => (counts ?? store.jobs.counts)() } })
  })
  const dead = 'colloquy_jobs{state="dead"}'
  t.equal(of(await figures(), dead), 0)
  for (const away of [() => Promise.reject(new Error('away')), () => new Promise<never>(() => {})]) {
    counts = away
    const begun = performance.now()
    const found = await figures()
    t.ok(performance.now() - begun < 8_000, 'sooner than Prometheus gives up')
    t.equal(found.get(dead), undefined, 'no job is said to be well')
    t.equal(of(found, 'colloquy_streams_open'), 0)
  }
  counts = null
  t.equal(of(await figures(), dead), 0)
})

t.test('the collections of garbage are counted, by kind', async (t) => {
  const { figures } = await watched(t)
  const major = (figures: Figures) => figures.get('nodejs_gc_duration_seconds_count{kind="major"}') ?? 0
  // They are counted from the first scrape on.
  const before = major(await figures())
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  collect()
  await until(async () => major(await figures()) > before, 'it is counted')
  t.ok(of(await figures(), 'nodejs_gc_duration_seconds_sum{kind="major"}') > 0)
})

t.test(
  'how old the oldest unstored frame is grows while the store holds writes back, and is 0 when it took them',
  async (t) => {
    let held: Promise<void> | null = null
    let letGo = () => {}
    const hold = () => {
      held = new Promise((resolve) => {
        letGo = resolve
      })
    }
    const { site, figures } = await watched(t, {
      behind: (store) => ({
        ...store,
        async apply(groups) {
          await held
          return store.apply(groups)
        }
      })
    })
    // Before the site stops, which waits for the store.
    t.teardown(() => letGo())
    const age = async () => of(await figures(), 'colloquy_oldest_unstored_seconds')
    await until(async () => (await age()) === 0, 'what the start wrote is stored')
    const person = await signIn(site)
    const stream = await person.stream(await person.thread(), '/demo deltas=3000 rate=50', {
      stream_mode: ['messages-tuple']
    })
    await stream.untilFrames(3)
    hold()
    await until(async () => (await age()) > 0.1, 'frames wait for the store')
    const earlier = await age()
    await until(async () => (await age()) > earlier + 0.1, 'it grows')
    letGo()
    await person.post(`${stream.runPath}/cancel?wait=true`)
    await until(async () => (await age()) === 0, 'all of it is stored')
  }
)

/** A cluster of one, whose lease does what a test tells it. */
class OneLease implements Peers {
  readonly id = 'the one'
  readonly leaseMs: number
  listener: PeerListener | null = null
  isRefused = false

  constructor(leaseMs: number) {
    this.leaseMs = leaseMs
  }

  async start(listener: PeerListener) {
    this.listener = listener
    return []
  }

  async renew(): Promise<void> {
    if (this.isRefused) throw new StoreUnavailable('AWAY', 'the database is away')
  }

  claim = async () => []
  others = async () => []
  runLocations = async () => []
  tell(): void {}
}

async function leased(t: Test, leaseMs: number) {
  const peers = new OneLease(leaseMs)
  const { figures } = await watched(t, { store: { ...openMemoryStore({ feedback: true }), peers } })
  return { peers, figures, lease: async () => leaseIn(await figures()) }
}

/** The one state that is 1. */
function leaseIn(figures: Figures): string {
  const states = ['held', 'lost', 'none'].filter((state) => of(figures, `colloquy_lease{state="${state}"}`) === 1)
  return states.join()
}

t.test('a lease is held until it was not renewed for its whole time, and again when it is', async (t) => {
  const { peers, lease, figures } = await leased(t, 600)
  await until(async () => (await lease()) === 'held', 'the lease of the start')
  peers.isRefused = true
  await until(async () => (await lease()) === 'lost', 'it has run out')
  peers.isRefused = false
  await until(async () => (await lease()) === 'held', 'it is renewed')
  t.equal(of(await figures(), 'colloquy_leases_lost_total'), 0, 'and no other process has taken it')
})

t.test(
  'a lease that another process took is lost at once and counted, and the next renewal gets another one',
  async (t) => {
    const { peers, lease, figures } = await leased(t, 3_600_000)
    t.equal(await lease(), 'held')
    peers.listener!.onLeaseLost()
    t.equal(await lease(), 'lost')
    t.equal(of(await figures(), 'colloquy_leases_lost_total'), 1)
    peers.listener!.onMessage({ kind: 'left' }, 'another')
    await until(async () => (await lease()) === 'held', 'the next renewal')
    t.equal(of(await figures(), 'colloquy_leases_lost_total'), 1)
  }
)

t.test('a process that has its database to itself has no lease to lose', async (t) => {
  const { figures } = await watched(t)
  t.equal(leaseIn(await figures()), 'none')
  t.equal(of(await figures(), 'colloquy_leases_lost_total'), 0)
})

t.test('the dashboard and the alert rules ask for figures that there are', async (t) => {
  const { figures } = await watched(t)
  const names = new Set([...(await figures()).keys()].map((name) => name.replace(/\{.*/, '')))
  // Those with labels have no line before they were counted once.
  const declared = await declaredNames(t)
  for (const file of ['grafana.json', 'alerts.yaml']) {
    const text = readFileSync(new URL(`../../../bin/deploy/${file}`, import.meta.url), 'utf8')
    const asked = new Set(text.match(/\b(colloquy|process|nodejs)_[a-z_]+\b/g))
    t.ok(asked.size > 5)
    // What is tried no more shows nowhere else.
    t.ok(asked.has('colloquy_jobs'), `${file}: colloquy_jobs`)
    for (const name of asked) t.ok(names.has(name) || declared.has(name.replace(/_(bucket|count|sum)$/, '')), name)
  }
})

t.test('a sign-in that is refused is counted, by why', async (t) => {
  const { site, figures } = await watched(t)
  const person = await signIn(site)
  const login = { username: 'nobody@example.com', password: PASSWORD }
  for (let i = 0; i < 6; i++) await person.post('/api/v1/auth/login/local', login)
  const counted = await figures()
  t.equal(of(counted, 'colloquy_logins_refused_total{reason="invalid_credentials"}'), 5)
  t.equal(of(counted, 'colloquy_logins_refused_total{reason="too_many_logins"}'), 1)
})

t.test(
  'a database that takes no writes makes it unready within two seconds, and ready when it takes them again',
  async (t) => {
    let isFull = false
    const site = await openSite(t, {
      behind: (store) => ({
        ...store,
        apply: (groups) =>
          isFull ? Promise.reject(new StoreUnavailable('SQLITE_FULL', 'database or disk is full')) : store.apply(groups)
      })
    })
    const person = await signIn(site)
    t.equal((await person.get('/readyz')).status, 200)
    isFull = true
    const since = performance.now()
    await until(async () => (await person.get('/readyz')).status === 503, 'the refusal')
    t.ok(performance.now() - since < 20_000)
    const { body, headers } = await person.get('/readyz')
    t.match(body, { status: 'not ready', reason: 'the database does not take writes: database or disk is full' })
    t.match(headers.get('retry-after'), /^\d+$/)
    t.equal((await person.get('/health')).status, 200, 'the process itself is well')
    isFull = false
    await until(async () => (await person.get('/readyz')).status === 200, 'it is ready again')
    const run = await person.post(`/api/threads/${await person.thread()}/runs/wait`, asked('/demo deltas=1 rate=0'))
    t.equal(run.status, 200)
  }
)

t.test('a database that somebody else keeps locked makes it unready as well', async (t) => {
  const site = await openSite(t, { config: { run_events: { backend: 'db' } } })
  const person = await signIn(site)
  const other = new Sqlite(join(site.home, 'data', 'colloquy.db'))
  other.exec('BEGIN IMMEDIATE')
  // What was written last has to be older than what says enough.
  await new Promise((resolve) => setTimeout(resolve, 1100))
  const since = performance.now()
  t.equal((await person.get('/readyz')).status, 503)
  t.ok(performance.now() - since < LOCK_WAIT_MS, 'and nobody waits for the lock')
  other.exec('ROLLBACK')
  other.close()
  await until(async () => (await person.get('/readyz')).status === 200, 'it is ready again')
})
