// The committer: one batch at a time, nothing lost, nothing overtaken.
import t from 'tap'
import { WriteRefused } from '../../lib/run/commit/outage.ts'
import type { Source } from '../../lib/run/commit/ports.ts'
import { Committer } from '../../lib/run/commit/committer.ts'
import { type Group, type Op, type Outcome, StoreUnavailable } from '../../lib/store/store.ts'
import { loopTurns, until } from '../fixtures/until.ts'

const op = (thread_id: string): Op => ({ name: 'thread.remove', thread_id, user: null })
const nameOf = (one: Op): string => ('thread_id' in one && one.thread_id !== null ? one.thread_id : one.name)

/** A store that answers when it is told to. */
class SlowStore {
  readonly batches: (readonly Group[])[] = []
  readonly #answers: ((outcomes: Outcome[] | Error) => void)[] = []
  inFlight = 0

  apply(groups: readonly Group[]): Promise<Outcome[]> {
    this.batches.push(groups)
    this.inFlight++
    return new Promise((resolve, reject) => {
      this.#answers.push((answer) => {
        this.inFlight--
        if (answer instanceof Error) reject(answer)
        else resolve(answer)
      })
    })
  }
  /** The names in the batches so far. */
  get names(): string[][] {
    return this.batches.map((groups) => groups.flatMap(({ ops }) => ops.map(nameOf)))
  }
  async answer(answer?: Outcome[] | Error): Promise<void> {
    while (this.#answers.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    const groups = this.batches.at(-1)!
    this.#answers.shift()!(answer ?? groups.map(({ ops }) => ({ ok: true, results: ops.map(() => true) })))
    await new Promise((resolve) => setImmediate(resolve))
  }
}

class FakeSource implements Source {
  readonly outcomes: Outcome[] = []
  pending: Op[] = []
  pendingBytes = 0
  isWaiting = false
  take(): Group | null {
    const ops = this.pending
    this.pending = []
    return ops.length ? { ops } : null
  }
  committed(outcome: Outcome): void {
    this.outcomes.push(outcome)
  }
}

function setUp(flushMs = 20): { store: SlowStore; committer: Committer; broken: string[] } {
  const store = new SlowStore()
  const broken: string[] = []
  const onBroken = (error: unknown) => void broken.push(String(error).replace('Error: ', ''))
  return { store, broken, committer: new Committer((groups) => store.apply(groups), { flushMs, onBroken }) }
}

t.test('writes that come while a batch is under way go together into the next one, in their order', async (t) => {
  const { store, committer } = setUp()
  const first = committer.writeAll([op('a')])
  await until(() => store.inFlight === 1, 'the first is under way')
  const rest = [committer.writeAll([op('b')]), committer.writeAll([op('c')])]
  t.same(store.names, [['a']])
  t.equal(store.inFlight, 1, 'one in flight')
  await store.answer()
  await first
  await store.answer()
  await Promise.all(rest)
  t.same(store.names, [['a'], ['b', 'c']])
})

t.test(
  'a crowd hears its outcomes in order, a few a turn: what the first does then is done before the last hears',
  async (t) => {
    const { store, committer } = setUp()
    const heard: number[] = []
    const turns: number[] = []
    let turn = 0
    const all = Array.from({ length: 20 }, async (_, i) => {
      await committer.writeAll([op(`${i}`)])
      heard.push(i)
      turns.push(turn)
    })
    const isDone = Promise.all(all).then(() => true)
    const step = (): void => {
      turn++
      if (heard.length < 20) setImmediate(step)
    }
    setImmediate(step)
    await store.answer()
    await isDone
    t.same(store.batches.length, 1, 'one transaction')
    t.same(
      heard,
      [...heard].sort((a, b) => a - b)
    )
    t.equal(heard.length, 20)
    t.ok(new Set(turns).size >= 3, 'not all in one turn')
  }
)

t.test('what a request waits for does not wait for the window; frames do [Events 6]', async (t) => {
  const { store, committer } = setUp(3_600_000)
  const source = new FakeSource()
  source.pending.push(op('frames'))
  committer.schedule(source, false)
  const write = committer.writeAll([op('request')])
  await store.answer()
  await write
  t.same(store.names, [['request']])
  committer.schedule(source, true)
  await store.answer()
  t.same(store.names, [['request'], ['frames']], 'urgent closes its window')
  committer.stop()
})

t.test('a batch that the store does not take stays in front and is tried again, whole [Events 7]', async (t) => {
  const { store, committer } = setUp()
  const first = committer.writeAll([op('a')])
  await store.answer(new StoreUnavailable('SQLITE_BUSY', 'locked'))
  const second = committer.writeAll([op('b')])
  t.ok(committer.waitingMs >= 0)
  await store.answer()
  await store.answer()
  await Promise.all([first, second])
  t.same(store.names, [['a'], ['a'], ['b']])
  t.equal(committer.waitingMs, 0)
})

t.test('a flush is skipped while another is in flight, and what waits is written behind it [Events 7]', async (t) => {
  const { store, committer } = setUp(1)
  const source = new FakeSource()
  const first = committer.writeAll([op('a')])
  await until(() => store.inFlight === 1, 'the first is on its way')
  source.pending.push(op('frames'))
  committer.schedule(source, false)
  // Longer than its window.
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.same(store.names, [['a']], 'its window is over, and it waits')
  await store.answer()
  await first
  await store.answer()
  t.same(store.names, [['a'], ['frames']])
  t.equal(source.outcomes.length, 1)
  committer.stop()
})

t.test('a refused group fails alone', async (t) => {
  const { store, committer } = setUp()
  const writes = [committer.writeAll([op('good')]), committer.writeAll([op('bad')])]
  const refused = t.rejects(writes[1]!, new WriteRefused('constraint'))
  await store.answer([
    { ok: true, results: [true] },
    { ok: false, message: 'constraint' }
  ])
  t.same(await writes[0], [true])
  await refused
})

t.test('a group that cannot be written at all is found, fails alone, and blocks nobody', async (t) => {
  const poison = (groups: readonly Group[]) =>
    groups.some(({ ops }) => ops.some((one) => 'thread_id' in one && one.thread_id === 'poison'))
  const apply = async (groups: readonly Group[]): Promise<Outcome[]> => {
    if (poison(groups)) throw new Error('cannot cross')
    return groups.map(() => ({ ok: true, results: [1] }))
  }
  const committer = new Committer(apply, { flushMs: 1 })
  const writes = ['a', 'poison', 'b'].map((name) => committer.writeAll([op(name)]))
  await t.rejects(writes[1]!, /cannot cross/)
  t.same(await Promise.all([writes[0], writes[2]]), [[1], [1]])
})

t.test('drained resolves when everything handed over is written, windows included', async (t) => {
  const { store, committer } = setUp(60_000)
  const source = new FakeSource()
  source.pending.push(op('frames'))
  committer.schedule(source, false)
  let isDrained = false
  const drained = committer.drained().then(() => {
    isDrained = true
  })
  await new Promise((resolve) => setTimeout(resolve, 5))
  t.equal(isDrained, false)
  await store.answer()
  await drained
  t.equal(source.outcomes.length, 1)
  await t.resolves(committer.drained(), 'and at once when there is nothing')
  committer.stop()
})

// ----------------------------------------------------------------------------------------- sources and fairness

t.test('a source that throws is refused alone: the others of its batch are written and told', async (t) => {
  const { store, committer, broken } = setUp()
  const cannotGive = new FakeSource()
  cannotGive.take = () => {
    throw new Error('cannot give')
  }
  const cannotHear = new FakeSource()
  cannotHear.pending.push(op('heard by nobody'))
  cannotHear.committed = () => {
    throw new Error('cannot hear')
  }
  const good = new FakeSource()
  good.pending.push(op('good'))
  for (const source of [cannotGive, cannotHear, good]) committer.schedule(source, true)
  const call = committer.writeAll([op('call')])
  await store.answer()
  await call
  t.same(store.names, [['call', 'heard by nobody', 'good']])
  t.match(good.outcomes, [{ ok: true }])
  t.same(cannotGive.outcomes, [{ ok: false, message: 'cannot give' }])
  t.same(broken, ['cannot give', 'cannot hear'])
  await t.resolves(committer.drained())
})

t.test('a flood of calls does not keep the ends of runs waiting, nor a flood of runs the calls', async (t) => {
  const { store, committer } = setUp()
  const sources = Array.from({ length: 600 }, (_, at) => {
    const source = new FakeSource()
    source.pending.push(op(`run ${at}`))
    return source
  })
  const calls = Array.from({ length: 2000 }, (_, at) => committer.writeAll([op(`call ${at}`)]))
  for (const source of sources) committer.schedule(source, true)
  for (let batch = 0; batch < 3; batch++) await store.answer()
  const [first, second, third] = store.names
  t.equal(first!.length, 512)
  for (const names of [first!, second!]) t.equal(names.filter((name) => name.startsWith('run')).length, 256)
  t.equal(third!.filter((name) => name.startsWith('run')).length, 88, 'all runs are through')
  t.equal(third!.length, 512, 'and the space that they leave is for calls')
  while (store.names.flat().length < 2600) await store.answer()
  if (store.inFlight) await store.answer()
  await Promise.all(calls)
  t.same(
    store.names.flat().filter((name) => name.startsWith('call')),
    calls.map((_, at) => `call ${at}`),
    'which are in their order'
  )
})

// ------------------------------------------------------------------------------------------- a store that is stuck

/** A store that fails with `trouble` until that is null. */
function failingStore(trouble: Error | null) {
  const store = {
    trouble,
    written: [] as string[],
    apply: async (groups: readonly Group[]): Promise<Outcome[]> => {
      if (store.trouble) throw store.trouble
      store.written.push(...groups.map(({ ops }) => ops.map(nameOf).join()))
      return groups.map(() => ({ ok: true, results: [true] }))
    }
  }
  return store
}

t.test('when the store is stuck requests are refused, what runs say waits, and it comes back by itself', async (t) => {
  const store = failingStore(new StoreUnavailable('SQLITE_FULL', 'database or disk is full'))
  const recovered: number[] = []
  const onRecovered = (attempts: number) => void recovered.push(attempts)
  const committer = new Committer(store.apply, { flushMs: 1, downAfterMs: 100, onRecovered })
  const source = new FakeSource()
  source.pending.push(op('run'))
  committer.schedule(source, true)
  const engine = committer.writeAll([op('engine')])
  const refusal = { code: 'store_unavailable', status: 503, headers: { 'Retry-After': '5' }, message: /disk is full/ }
  t.equal(committer.stuck, null, 'not at once')
  await t.rejects(committer.writeAll([op('early')], 'limited'), refusal)
  t.equal(committer.stuck, 'database or disk is full')
  const late = committer.writeAll([op('late')], 'limited').catch((error: unknown) => error)
  t.match(await Promise.race([late, loopTurns()]), refusal, 'at once, from now on')
  t.same(source.outcomes, [])
  store.trouble = null
  await engine
  t.equal(committer.stuck, null)
  t.match(source.outcomes, [{ ok: true }])
  t.same(store.written, ['engine', 'run'], 'nothing that was refused is written')
  t.equal(recovered.length, 1)
  await committer.writeAll([op('welcome')], 'limited')
})

t.test(
  'behind a batch of which the store cannot tell yet whether it was written requests are refused; those in it wait',
  async (t) => {
    const store = new SlowStore()
    let trouble: StoreUnavailable | null = null
    const apply = (groups: readonly Group[]) => store.apply(groups)
    const committer = new Committer(apply, { flushMs: 1, downAfterMs: 100, troubleOf: () => trouble })
    const doubtful = committer.writeAll([op('doubtful')], 'limited')
    await until(() => store.inFlight === 1, 'it is under way')
    const engine = committer.writeAll([op('engine')])
    const behind = committer.writeAll([op('behind')], 'limited')
    trouble = new StoreUnavailable('ECONNREFUSED', 'PostgreSQL cannot be reached')
    await t.rejects(behind, { code: 'store_unavailable', status: 503, message: /PostgreSQL cannot be reached/ })
    t.equal(committer.stuck, 'PostgreSQL cannot be reached')
    await t.rejects(committer.writeAll([op('late')], 'limited'), { code: 'store_unavailable' })
    trouble = null
    await store.answer()
    t.same(await doubtful, [true])
    await store.answer()
    t.same(await engine, [true])
    t.same(store.names, [['doubtful'], ['engine']], 'what was refused is not written')
    t.equal(committer.stuck, null)
  }
)

t.test('a stuck store is asked again although nobody waits any more: else nobody would know', async (t) => {
  const store = failingStore(new StoreUnavailable('SQLITE_READONLY', 'read-only'))
  const committer = new Committer(store.apply, { flushMs: 1, downAfterMs: 50 })
  await t.rejects(committer.writeAll([op('a')], 'limited'))
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(committer.stuck, 'read-only')
  store.trouble = null
  await until(() => committer.stuck === null, 'it is found to work')
  t.same(store.written, ['store.ping'])
})

t.test('a lock is waited for as long as `stuckAfterMs`: it goes by itself', async (t) => {
  const store = failingStore(new StoreUnavailable('SQLITE_BUSY', 'database is locked', true))
  const committer = new Committer(store.apply, { flushMs: 1, downAfterMs: 10, stuckAfterMs: 60_000 })
  const write = committer.writeAll([op('patient')], 'limited')
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.equal(committer.stuck, null)
  t.ok(committer.waitingMs > 100)
  store.trouble = null
  await t.resolves(write)
})

t.test('drained waits for the batch in front and those behind it, also when later ones are refused', async (t) => {
  const store = failingStore(new StoreUnavailable('SQLITE_FULL', 'full'))
  const committer = new Committer(store.apply, { flushMs: 1, downAfterMs: 50 })
  const first = committer.writeAll([op('in front')])
  await until(() => committer.waitingMs > 0, 'it is under way')
  const second = committer.writeAll([op('behind')])
  let isDrained = false
  const drained = committer.drained().then(() => {
    isDrained = true
  })
  const later = Array.from({ length: 5 }, () => t.rejects(committer.writeAll([op('later')], 'limited')))
  await Promise.all(later)
  t.equal(isDrained, false)
  store.trouble = null
  await drained
  t.same(store.written, ['in front', 'behind'])
  await Promise.all([first, second])
})

t.test(
  'a poisoned batch in which the store fails as well: nothing is written twice, and nobody is forgotten',
  async (t) => {
    let failures = 2
    const written: string[] = []
    const apply = async (groups: readonly Group[]): Promise<Outcome[]> => {
      const names = groups.map(({ ops }) => ops.map(nameOf).join())
      if (names.includes('poison')) throw new Error('cannot cross')
      if (names.includes('c') && failures-- > 0) throw new StoreUnavailable('SQLITE_IOERR', 'disk I/O error')
      written.push(...names)
      return groups.map(() => ({ ok: true, results: [1] }))
    }
    const committer = new Committer(apply, { flushMs: 1 })
    const writes = ['a', 'poison', 'c', 'd'].map((name) => committer.writeAll([op(name)]))
    await t.rejects(writes[1]!, /cannot cross/)
    await Promise.all([writes[0], writes[2], writes[3]])
    t.same(written, ['a', 'c', 'd'])
  }
)

t.test('runs that have much to say go into several batches, in their order, and requests between them', async (t) => {
  const { store, committer } = setUp()
  const sources = ['a', 'b', 'c', 'd', 'e'].map((name) => {
    const source = new FakeSource()
    source.pending = [op(name)]
    source.pendingBytes = 3 * 1024 * 1024
    return source
  })
  for (const source of sources) committer.schedule(source, true)
  await until(() => store.batches.length === 1, 'a batch is made')
  const call = committer.write({ name: 'thread.remove', thread_id: 'call', user: null })
  await store.answer()
  await until(() => store.batches.length === 2, 'the rest is next')
  t.same(store.names, [
    ['a', 'b', 'c'],
    ['call', 'd', 'e']
  ])
  await store.answer()
  t.equal(await call, true)
  t.ok(sources.every(({ outcomes }) => outcomes.length === 1))
  committer.stop()
})

t.test(
  'a clock that is set forward meanwhile refuses nobody: waiting is measured by one that only goes on',
  async (t) => {
    const store = new SlowStore()
    const committer = new Committer((groups) => store.apply(groups), { flushMs: 1 })
    const { now } = Date
    t.teardown(() => {
      Date.now = now
    })
    const writing = committer.writeAll([op('one')], 'limited')
    await until(() => store.batches.length > 0, 'it is under way')
    Date.now = () => now() + 3_600_000
    t.equal(committer.stuck, null)
    t.ok(committer.waitingMs < 60_000)
    const late = committer.writeAll([op('two')], 'limited')
    await store.answer()
    await store.answer()
    await t.resolves(Promise.all([writing, late]))
  }
)

t.test('what the store does not take any more when all is stopped is not tried again for ever', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  for (const when of ['under way at the stop', 'made after it']) {
    const { store, committer } = setUp()
    t.teardown(() => committer.stop())
    if (when === 'made after it') committer.stop()
    const told = t.rejects(
      committer.writeAll([op('late')], 'limited'),
      { code: 'store_unavailable' },
      'who waits is told'
    )
    await until(() => store.inFlight === 1, when)
    committer.stop()
    await store.answer(new StoreUnavailable('CLOSED', 'the store is closed'))
    t.equal(timers(), before, `no timer holds the process: ${when}`)
    committer.stop()
    await told
  }
})
