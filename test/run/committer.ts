// The committer: one batch at a time, nothing lost, nothing overtaken.
import t from 'tap'
import { Committer, type Source, WriteRefused } from '../../lib/run/committer.ts'
import { type Group, type Op, type Outcome, StoreUnavailable } from '../../lib/store/store.ts'

const op = (thread_id: string): Op => ({ name: 'thread.remove', thread_id, user: null })

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
    return this.batches.map((groups) =>
      groups.flatMap(({ ops }) => ops.map((one) => ('thread_id' in one ? one.thread_id : '')))
    )
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
  take(): Group | null {
    const ops = this.pending
    this.pending = []
    return ops.length ? { ops } : null
  }
  committed(outcome: Outcome): void {
    this.outcomes.push(outcome)
  }
}

function setUp(flushMs = 20): { store: SlowStore; committer: Committer } {
  const store = new SlowStore()
  return { store, committer: new Committer((groups) => store.apply(groups), { flushMs }) }
}

t.test('writes that come while a batch is under way go together into the next one, in their order', async (t) => {
  const { store, committer } = setUp()
  const first = committer.writeAll([op('a')])
  await new Promise((resolve) => setTimeout(resolve, 5))
  const rest = [committer.writeAll([op('b')]), committer.writeAll([op('c')])]
  t.same(store.names, [['a']])
  t.equal(store.inFlight, 1, 'one in flight')
  await store.answer()
  await first
  await store.answer()
  await Promise.all(rest)
  t.same(store.names, [['a'], ['b', 'c']])
})

t.test('what a request waits for does not wait for the window; frames do', async (t) => {
  const { store, committer } = setUp(60_000)
  const source = new FakeSource()
  source.pending.push(op('frames'))
  committer.due(source, false)
  const write = committer.writeAll([op('request')])
  await store.answer()
  await write
  t.same(store.names, [['request']])
  committer.due(source, true)
  await store.answer()
  t.same(store.names, [['request'], ['frames']], 'urgent closes its window')
  committer.stop()
})

t.test('a batch that the store does not take stays in front and is tried again, whole', async (t) => {
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
  committer.due(source, false)
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

t.test('an op whose user was left out is the current user’s, and an error when there is none [Auth 7]', async (t) => {
  const { committer } = setUp()
  await t.rejects(committer.write({ name: 'thread.remove', thread_id: 'x' }), /no user is signed in/)
})
