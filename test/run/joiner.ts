// Joiners: cursors on one log. Whatever happens to log, store and sockets, each frame arrives once, in order, then the end.
import fc from 'fast-check'
import t from 'tap'
import { Joiner } from '../../lib/run/delivery/joiner.ts'
import { Kind } from '../../lib/run/log/frame.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import type { RunLog } from '../../lib/run/log/run-log.ts'
import { Clock } from '../fixtures/clock.ts'
import { aLog, appendState, commit, HandStore } from '../fixtures/run-log.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const MODES = ['messages-tuple', 'custom', 'values']
const KINDS: Kind[] = [Kind.messages, Kind.custom, Kind.values]
const nobody = { userId: null, credential: null }

/** A run's log and its store, moved by hand. */
class FakeRun {
  readonly store = new HandStore()
  readonly log: RunLog
  readonly kinds: Kind[] = []

  constructor(windowBytes = 2000) {
    this.store.reads = []
    this.log = aLog({ windowBytes, store: this.store })
  }

  append(kind: Kind): void {
    this.kinds.push(kind)
    if (kind === Kind.values) appendState(this.log, `state-${this.log.head}`)
    else this.log.append(kind, kind === Kind.custom ? 'custom' : 'messages', `"${'.'.repeat(200)}"`)
  }
  commit(): void {
    this.store.stored.push(...commit(this.log))
  }
  get isReading(): boolean {
    return this.store.reads!.length > 0
  }
  /** Lets one read of the store that is under way, or about to be, come back. */
  async answerRead(): Promise<void> {
    await loopTurns(2)
    this.store.answer()
    await loopTurns(2)
  }
}

const join = ({ log }: FakeRun, wire: FakeWire, modes = MODES, next = 0) => {
  const start = next === 0 ? null : { epoch: log.epoch, n: next - 1 }
  return new Joiner({ wire, reader: nobody }, log, filterOf(modes), start, { onLeave: () => {}, onTrouble: () => {} })
}

t.test(
  'a full wire is skipped, and goes on from the log when it drains: it loses nothing and repeats nothing',
  async (t) => {
    const run = new FakeRun(1_000_000)
    const wire = new FakeWire()
    const joiner = join(run, wire)
    run.append(Kind.messages)
    wire.isFull = true
    joiner.pump()
    for (let i = 0; i < 50; i++) run.append(Kind.messages)
    joiner.pump()
    t.same(wire.ns, [0], 'one write filled it')
    wire.drain()
    t.same(
      wire.ns,
      Array.from({ length: 51 }, (_, n) => n)
    )
  }
)

t.test(
  'a joiner that is behind memory is caught up from the store, and then attached, without a gap or a repeat',
  async (t) => {
    const run = new FakeRun()
    for (let i = 0; i < 200; i++) {
      run.append(Kind.messages)
      if (i % 10 === 0) run.commit()
    }
    run.commit()
    t.ok(run.log.first > 0)
    const wire = new FakeWire()
    const joiner = join(run, wire)
    const hasAll = () => {
      joiner.pump()
      return wire.ns.length >= run.log.head
    }
    // Between two reads it may be unpacking what it has read.
    for (let isDone = hasAll(); !isDone; isDone = hasAll()) {
      await until(() => run.isReading || hasAll(), 'it reads on, or has all')
      if (!run.isReading) continue
      run.append(Kind.custom)
      await run.answerRead()
    }
    t.same(
      wire.ns,
      Array.from({ length: run.log.head }, (_, n) => n)
    )
  }
)

t.test('the end goes out once, last, and only when the run is closed', async (t) => {
  const run = new FakeRun()
  const wire = new FakeWire()
  const joiner = join(run, wire)
  run.append(Kind.messages)
  joiner.pump()
  t.equal(wire.ending, 'open')
  run.log.close()
  joiner.pump()
  t.equal(wire.ending, 'ended')
  t.match(wire.text, /event: end\ndata: null\n\n$/)
  t.equal(wire.text.match(/event: end/g)?.length, 1)
})

t.test('a stream that we break off is reset, never ended', async (t) => {
  const wire = new FakeWire()
  join(new FakeRun(), wire).reset()
  t.equal(wire.ending, 'reset')
})

t.test('a heartbeat is one line, and skips a full wire; one that stays full too long is reset', async (t) => {
  const run = new FakeRun()
  const wire = new FakeWire()
  const joiner = join(run, wire)
  joiner.beat(10)
  t.equal(wire.text, ': heartbeat\n')
  wire.isFull = true
  run.append(Kind.messages)
  joiner.pump()
  const before = wire.written.length
  joiner.beat(100_000)
  t.equal(wire.written.length, before, 'skipped')
  await new Promise((resolve) => setTimeout(resolve, 20))
  joiner.beat(10)
  t.equal(wire.ending, 'reset')
})

/** The socket of a client that reads slowly but steadily: it drains when the client has read what it was given. */
class SlowWire extends FakeWire {
  readonly #bytesPerMs: number

  constructor(bytesPerMs: number) {
    super()
    this.#bytesPerMs = bytesPerMs
  }
  override write(bytes: Uint8Array): boolean {
    super.write(bytes)
    if (bytes.length > 1000) setTimeout(() => this.drain(), bytes.length / this.#bytesPerMs)
    return bytes.length <= 1000
  }
}

t.test(
  'a slow but steady reader of a large frame is never taken for a dead one; one that has stopped is',
  async (t) => {
    const clock = Clock.stopFor(t)
    const state = { json: () => JSON.stringify('x'.repeat(12_000_000)) }
    for (const isSteady of [true, false]) {
      const run = new FakeRun(1_000_000)
      run.log.appendValues('large', state, 12_000_000)
      const wire = new SlowWire(isSteady ? 150 : 0)
      const joiner = join(run, wire)
      joiner.pump()
      for (let second = 0; second < 100 && wire.ending === 'open'; second++) {
        await clock.pass(1000)
        joiner.beat(5000)
      }
      t.equal(wire.ending, isSteady ? 'open' : 'reset')
      if (isSteady) t.ok(wire.text.startsWith('event: values') && wire.text.includes('\nid: 7-0\n\n'))
      t.equal(
        wire.text.match(/: heartbeat/g)?.length ?? 0,
        isSteady ? wire.text.split('id: 7-0\n\n')[1]!.length / 12 : 0
      )
    }
  }
)

t.test('frames that are gone from the store are a gap that is told, and what there is follows', async (t) => {
  const run = new FakeRun()
  for (let i = 0; i < 100; i++) run.append(Kind.messages)
  run.commit()
  run.store.stored.length = 0
  const wire = new FakeWire()
  const joiner = join(run, wire)
  joiner.pump()
  await run.answerRead()
  joiner.pump()
  t.match(wire.text, /^event: gap\n/)
  t.equal(wire.ns[0], run.log.first)
})

t.test('a store that does not answer resets the stream: its client comes back by its cursor', async (t) => {
  const run = new FakeRun()
  for (let i = 0; i < 100; i++) run.append(Kind.messages)
  run.commit()
  run.store.frames.read = () => Promise.reject(new Error('gone'))
  const wire = new FakeWire()
  join(run, wire).pump()
  await t.resolves(until(() => wire.ending === 'reset', 'it is reset'))
})

/** One thing that can happen. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('append' as const),
      kind: fc.constantFrom(...KINDS),
      count: fc.integer({ min: 1, max: 12 })
    })
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('commit' as const) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('pump' as const) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('read' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('join' as const),
      from: fc.nat(300),
      modes: fc.subarray(MODES, { minLength: 1 })
    })
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('full' as const), which: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('drain' as const), which: fc.nat(5) }) }
)

interface Reading {
  readonly wire: FakeWire
  readonly joiner: Joiner
  readonly from: number
  readonly modes: readonly string[]
}

/** n of the frames that a reader must get. */
function expected(run: FakeRun, { from, modes }: Reading): number[] {
  const wanted = KINDS.filter((_, index) => modes.includes(MODES[index]!))
  return run.kinds.flatMap((kind, n) => (n >= from && wanted.includes(kind) ? [n] : []))
}

t.test(
  'any interleaving of append, commit, join, stall, drain and late reads gives each joiner each of its frames once, in order, then the end',
  async (t) => {
    const runs = Number(process.env.PROPERTY_RUNS ?? 2000)
    const property = fc.asyncProperty(fc.array(step, { maxLength: 120 }), async (steps) => {
      const run = new FakeRun()
      const readers: Reading[] = []
      const pump = () => {
        for (const { joiner } of readers) joiner.pump()
      }
      for (const one of steps) {
        if (one.type === 'append') for (let i = 0; i < one.count; i++) run.append(one.kind)
        else if (one.type === 'commit') run.commit()
        else if (one.type === 'pump') pump()
        else if (one.type === 'read') await run.answerRead()
        else if (one.type === 'join') {
          const wire = new FakeWire()
          const from = Math.min(one.from, run.log.head)
          const joiner = join(run, wire, one.modes, from)
          readers.push({ wire, joiner, from, modes: one.modes })
          joiner.pump()
        } else if (one.type === 'full') {
          const reader = readers[one.which]
          if (reader) reader.wire.isFull = true
        } else readers[one.which]?.wire.drain()
      }
      run.commit()
      run.log.close()
      for (const { wire } of readers) wire.drain()
      for (let round = 0; round < 200 && readers.some(({ wire }) => wire.ending === 'open'); round++) {
        await run.answerRead()
        for (const { wire } of readers) wire.drain()
      }
      for (const reader of readers) {
        if (reader.wire.ending !== 'ended') return false
        if (reader.wire.ns.join() !== expected(run, reader).join()) return false
      }
      return true
    })
    await t.resolves(fc.assert(property, { numRuns: runs }), `${runs} runs`)
  }
)
