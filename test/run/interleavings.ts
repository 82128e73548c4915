// The promise, as a property: whatever happens to runs, store, sockets and process, in whatever order, each reader gets each frame
// once and in order, and then the end. Real actors, registry, committer, joiners and recovery, over a store that is moved by hand.
//
//   PROPERTY_RUNS=200000 PROPERTY_SEED=1 node dist/test/run/interleavings.js
import { BuiltStates } from '../../lib/run/built-state.ts'
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Committer } from '../../lib/run/commit/committer.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import { framesOf } from '../../lib/run/log/segment.ts'
import { recover } from '../../lib/run/lifecycle/recovery.ts'
import { Registry } from '../../lib/run/lifecycle/registry.ts'
import { type Cursor, type Position, bit, Kind } from '../../lib/run/log/frame.ts'
import { newThread } from '../../lib/thread/thread.ts'
import { type Run, timestamp } from '../../lib/base/types.ts'
import { aRun, write } from '../contract/harness.ts'
import { ScriptedAgent, type Stage } from '../fixtures/agent.ts'
import { Clock } from '../fixtures/clock.ts'
import { ANN, OPTIONS } from '../fixtures/room.ts'
import { SEED, sized } from '../fixtures/size.ts'
import { SteppedStore } from '../fixtures/stepped-store.ts'
import { loopTurns } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const RUNS = Number(process.env.PROPERTY_RUNS ?? sized(2000, 20_000))
const STEPS_MAX = 60
const READERS_MAX = 6
const MODES = ['messages-tuple', 'custom', 'values', 'messages'] as const
const HEARTBEAT_MS = 5000
const STALL_MS = 30_000
/** Rounds after which a reader that has not been told the end hangs. */
const ROUNDS_MAX = 300

/** A cursor that nobody has given out. */
const NEVER = { epoch: 12_345, n: 3 }

const log = { warn() {}, error() {} }

// ------------------------------------------------------------------------------------------------- what can happen

const whose = fc.nat(READERS_MAX - 1)
const position = fc.oneof(
  { weight: 3, arbitrary: fc.constant('beginning' as const) },
  { weight: 3, arbitrary: fc.record({ seenBy: whose, at: fc.nat(40), isBare: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant('never was' as const) }
)
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('say' as const), count: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('custom' as const), size: fc.integer({ min: 1, max: 3000 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('reply' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('flush' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('commit' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('take' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('refuse' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('read' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('deliver' as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('join' as const),
      second: fc.boolean(),
      position,
      modes: fc.subarray([...MODES], { minLength: 1 })
    })
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('full' as const), whose }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('drain' as const), whose }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), whose }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('return' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('stall' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pack' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('sweep' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('cancel', 'rollback', 'finish', 'fail') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) }
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never
type Place = typeof position extends fc.Arbitrary<infer P> ? P : never

// ---------------------------------------------------------------------------------------------------- who reads

/** A client: one filter, one connection after the other, each taken up where the last one broke off. */
class Reader {
  readonly run: Run
  readonly modes: readonly string[]
  /** Where its first connection began. */
  readonly from: Position
  /** Every frame with an id, in the order in which they came. */
  readonly seen: { readonly cursor: Cursor; readonly text: string }[] = []
  wasToldOfGap = false
  ends = 0
  wire: FakeWire | null = null
  #read = 0

  constructor(run: Run, modes: readonly string[], from: Position) {
    this.run = run
    this.modes = modes
    this.from = from
  }

  get position(): Position {
    return this.seen.at(-1)?.cursor ?? this.from
  }
  get isDone(): boolean {
    return this.ends > 0
  }
  get isAway(): boolean {
    return !this.isDone && (this.wire === null || this.wire.ending !== 'open')
  }

  /** Reads what came on its present connection. */
  look(): void {
    if (!this.wire) return
    const { text } = this.wire
    const border = text.lastIndexOf('\n\n') + 2
    if (border < 2) return
    const fresh = text.slice(this.#read, border).replaceAll(': heartbeat\n', '')
    this.#read = border
    for (const frame of fresh.split('\n\n').slice(0, -1)) this.#take(`${frame}\n\n`)
  }

  #take(text: string): void {
    const [, epoch, n] = /^id: (\d+)-(\d+)$/m.exec(text) ?? []
    if (epoch !== undefined) this.seen.push({ cursor: { epoch: Number(epoch), n: Number(n) }, text })
    else if (text.startsWith('event: gap')) this.wasToldOfGap = true
    else if (text.startsWith('event: end')) this.ends++
  }

  connect(wire: FakeWire): void {
    this.wire = wire
    this.#read = 0
  }
}

// ------------------------------------------------------------------------------------------------------ the world

class World {
  readonly #clock: Clock
  readonly stepped = new SteppedStore()
  readonly readers: Reader[] = []
  runs: [Run, Run]
  #agent = new ScriptedAgent()
  #committer!: Committer
  #registry!: Registry

  constructor(clock: Clock, runs: [Run, Run]) {
    this.#clock = clock
    this.runs = runs
  }

  /** Two runs on one thread: the second waits for the first. */
  static async open(clock: Clock, isSync: boolean): Promise<World> {
    const given = { thread_id: randomUUID(), user_id: 'ann', assistant_id: null, metadata: {} }
    const world = new World(clock, [aRun(given.thread_id), aRun(given.thread_id)] as unknown as [Run, Run])
    await write(world.stepped.inner, { name: 'thread.create', ...newThread(given, timestamp()) })
    world.#live()
    const created: Run[] = []
    for (const text of ['one', 'two']) {
      const kwargs = {
        input: { messages: [{ type: 'human', id: text, content: text }] },
        stream_mode: ['values'],
        on_disconnect: 'continue',
        durability: isSync ? 'sync' : 'async'
      }
      const admission = await world.#registry.create(aRun(given.thread_id, { kwargs }), false)
      if (admission.outcome !== 'created') throw new Error(admission.outcome)
      created.push(admission.run)
    }
    await loopTurns(3)
    world.runs = created as [Run, Run]
    world.stepped.isOpen = false
    return world
  }

  /** A process. */
  #live(): void {
    const store = this.stepped.store()
    this.#agent = new ScriptedAgent()
    // The window is opened by hand.
    this.#committer = new Committer((groups) => store.apply(groups), { flushMs: 1e9 })
    const options = { ...OPTIONS, windowBytes: 2000, pendingBytes: 0, heartbeatMs: HEARTBEAT_MS, stallMs: STALL_MS }
    const states = new BuiltStates(store, OPTIONS)
    this.#registry = new Registry({ store, states, committer: this.#committer, agent: this.#agent, options, log })
  }

  /** The process is killed, and the next one takes care of what it has left. */
  async #restart(): Promise<void> {
    this.stepped.kill()
    this.#clock.clear()
    for (const { wire } of this.readers) if (wire?.ending === 'open') wire.leave()
    this.stepped.isOpen = true
    this.#live()
    const store = this.stepped.store()
    await recover(await store.runs.unfinished(null), {
      store,
      states: new BuiltStates(store, OPTIONS),
      writer: this.#committer,
      registry: this.#registry,
      options: OPTIONS,
      log
    })
    this.stepped.isOpen = false
  }

  /** The stage that is played on. */
  get #stage(): Stage | undefined {
    const playing = this.runs.filter(({ run_id }) => this.#registry.find(run_id)?.phase === 'open')
    return playing.map(({ run_id }) => this.#agent.find(run_id)).find((stage) => stage !== undefined)
  }

  async take(one: Step): Promise<void> {
    const stage = this.#stage
    switch (one.do) {
      case 'say':
        for (let i = 0; i < one.count; i++) stage?.say('.'.repeat(200), 'answer')
        return
      case 'custom':
        stage?.custom('x'.repeat(one.size))
        return
      case 'reply':
        stage?.reply('a whole answer', { id: `reply ${Math.random()}` })
        return
      case 'flush':
        void this.#committer.drained()
        return loopTurns(1)
      case 'commit':
        await this.stepped.commit()
        return loopTurns(1)
      case 'take':
        return this.stepped.take()
      case 'refuse':
        return this.stepped.refuse()
      case 'read':
        this.stepped.answerRead()
        return loopTurns(1)
      case 'deliver':
        await this.#clock.pass(60)
        return
      case 'join':
        return this.#join(one.second ? 1 : 0, one.modes, one.position)
      case 'full':
        this.#set(one.whose, (wire) => {
          wire.isFull = true
        })
        return
      case 'drain':
        this.#set(one.whose, (wire) => wire.drain())
        return
      case 'leave':
        this.#set(one.whose, (wire) => wire.leave())
        return
      case 'return':
        return this.#returnAll()
      case 'stall':
        await this.#clock.pass(STALL_MS + 2 * HEARTBEAT_MS)
        return
      case 'pack':
        for (const { key } of this.runs) this.stepped.pack(key)
        return
      case 'sweep':
        return this.stepped.sweep()
      case 'restart':
        return this.#restart()
      default:
        return this.#end(one.do, stage)
    }
  }

  async #end(how: string, stage: Stage | undefined): Promise<void> {
    const runId = stage?.input.runId
    if (how === 'finish') stage?.finish()
    else if (how === 'fail') stage?.fail(new Error('on purpose'))
    else if (runId) this.#registry.ends.cancel(runId, how === 'rollback' ? 'rollback' : 'interrupt')
    await loopTurns(1)
  }

  #set(which: number, change: (wire: FakeWire) => void): void {
    const wire = this.readers[which]?.wire
    if (wire?.ending === 'open') change(wire)
  }

  async #join(which: 0 | 1, modes: readonly string[], place: Place): Promise<void> {
    if (this.readers.length >= READERS_MAX) return
    const run = this.runs[which]
    const reader = new Reader(run, modes, this.#positionOf(run, place))
    this.readers.push(reader)
    await this.#connect(reader)
  }

  #positionOf(run: Run, place: Place): Position {
    if (place === 'beginning') return null
    if (place === 'never was') return NEVER
    const other = this.readers[place.seenBy]
    other?.look()
    if (other?.run.run_id !== run.run_id || other.seen.length === 0) return null
    const { cursor } = other.seen[place.at % other.seen.length]!
    // A bare number means a frame of whatever epoch: only one that is stored is the same one for ever.
    const isStored = this.stepped.kept
      .get(run.key)
      ?.some(({ epoch, last }) => epoch === cursor.epoch && last >= cursor.n)
    return place.isBare && isStored ? { epoch: null, n: cursor.n } : cursor
  }

  /** As the route does it: the row is read first, and may be old when the registry sees it. */
  async #connect(reader: Reader): Promise<void> {
    const row = await this.stepped.inner.runs.get(reader.run.run_id, null)
    const wire = new FakeWire()
    reader.connect(wire)
    void this.#registry.readers.join(row!, { wire, reader: ANN, modes: reader.modes, position: reader.position })
    await loopTurns(1)
  }

  async #returnAll(): Promise<void> {
    for (const reader of this.readers) {
      reader.look()
      if (reader.isAway) await this.#connect(reader)
    }
  }

  /** Everything goes on until all runs have ended and all readers know. False: somebody hangs. */
  async finish(): Promise<boolean> {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      await this.stepped.open()
      this.#stage?.finish()
      for (const { wire } of this.readers) if (wire?.ending === 'open') wire.drain()
      await this.#clock.pass(1100)
      await this.#returnAll()
      if (this.readers.every(({ isDone }) => isDone) && this.#registry.active === 0) return true
    }
    return false
  }

  /** What is wrong with what a reader got; null: nothing. */
  wrongWith(reader: Reader): string | null {
    const { seen, run, ends, wasToldOfGap } = reader
    if (ends !== 1) return `${ends} ends`
    if (wasToldOfGap && !this.stepped.swept.has(run.key)) return 'a gap where nothing was swept'
    for (const [at, { cursor }] of seen.entries()) {
      const before = seen[at - 1]?.cursor
      if (before && !isAfter(cursor, before)) return `${text(cursor)} after ${text(before)}`
    }
    return reader.modes.includes('messages') ? this.#wrongWhole(reader) : this.#wrongFrames(reader)
  }

  /** Of a reader of frames as they are logged. */
  #wrongFrames(reader: Reader): string | null {
    const stored = this.#expected(reader)
    const texts = new Map(stored.map((frame) => [text(frame.cursor), frame.text]))
    const got = reader.seen.filter(({ cursor }) => texts.has(text(cursor)))
    for (const { cursor, text: came } of got) {
      const kept = texts.get(text(cursor))
      if (kept !== null && kept !== came) return `${text(cursor)} came as ${came}, is stored as ${kept}`
    }
    const names = got.map(({ cursor }) => text(cursor)).join()
    const expected = stored.map(({ cursor }) => text(cursor)).join()
    return reader.wasToldOfGap || names === expected ? null : `got ${names}\n of ${expected}`
  }

  /** Of a reader of whole messages: several deltas are one frame for it, everything else is as ever. */
  #wrongWhole(reader: Reader): string | null {
    if (reader.wasToldOfGap) return null
    const stored = this.#expected(reader).filter(({ kind }) => kind !== Kind.messages)
    const came = new Set(reader.seen.map(({ cursor }) => text(cursor)))
    const missing = stored.find(({ cursor }) => !came.has(text(cursor)))
    return missing ? `${text(missing.cursor)} has not come` : null
  }

  /** The stored frames that the reader must get. The text of a values frame is made when it is read: null. */
  #expected({ run, from, modes }: Reader): { cursor: Cursor; kind: Kind; text: string | null }[] {
    const { mask } = filterOf(modes)
    const segments = this.stepped.kept.get(run.key) ?? []
    const all = segments.flatMap((segment) =>
      [...framesOf(segment)].map(({ epoch, n, kind, bytes }) => ({
        cursor: { epoch, n },
        kind,
        text: kind === Kind.values ? null : bytes.toString('utf8')
      }))
    )
    return all.filter(({ cursor, kind }) => (mask & bit(kind)) !== 0 && isFrom(from, cursor))
  }

  async close(): Promise<void> {
    this.stepped.kill()
    this.#clock.clear()
    await this.stepped.inner.close()
  }
}

function isAfter(a: Cursor, b: Cursor): boolean {
  return a.epoch > b.epoch || (a.epoch === b.epoch && a.n > b.n)
}

function isFrom(from: Position, cursor: Cursor): boolean {
  if (from === null || from.epoch === NEVER.epoch) return true
  return from.epoch === null ? cursor.n > from.n : isAfter(cursor, from)
}

function text({ epoch, n }: Cursor): string {
  return `${epoch}-${n}`
}

// --------------------------------------------------------------------------------------------------- the property

t.test(
  'any interleaving of append, flush, spill, packing, join, stall, drain, cancel, end, restart and sweep gives each reader each of its frames once, in order, then the end',
  async (t) => {
    const clock = Clock.stopFor(t)
    const since = process.hrtime.bigint()
    const property = fc.asyncProperty(fc.array(step, { maxLength: STEPS_MAX }), fc.boolean(), async (steps, isSync) => {
      const world = await World.open(clock, isSync)
      for (const one of steps) await world.take(one)
      const isOver = await world.finish()
      const wrong = world.readers.map((reader) => world.wrongWith(reader)).filter((one) => one !== null)
      await world.close()
      if (!isOver) throw new Error(`somebody hangs: ${wrong.join('; ')}`)
      if (wrong.length) throw new Error(wrong.join('; '))
    })
    await t.resolves(fc.assert(property, { numRuns: RUNS, seed: SEED }))
    t.comment(`${RUNS} runs with seed ${SEED} in ${Number(process.hrtime.bigint() - since) / 1e9} s`)
  }
)
