// The compactor: works when it is quiet, a few runs at a time, and leaves alone what is not worth it.
import t, { type Test } from 'tap'
import { Compactor } from '../../lib/run/commit/compactor.ts'
import type { OpName, OpOf, Result, Writer } from '../../lib/store/store.ts'
import { Clock } from '../fixtures/clock.ts'

const KB = 1024
const LARGE = 1024 * KB

interface Step {
  readonly run_key: number
  readonly from: number
}

/** A store that compacts a run in so many steps, one of them not at all, and notes what it was asked for, transaction by transaction. */
function scene(t: Test, { steps = 1, broken = -1 } = {}) {
  const clock = Clock.stopFor(t)
  const rounds: Step[][] = []
  let open: Step[] | null = null
  const write = (op: OpOf<'frames.compact'>): Promise<Result<'frames.compact'>> => {
    if (!open) {
      open = []
      rounds.push(open)
      // What is asked for in one turn is one transaction.
      setImmediate(() => {
        open = null
      })
    }
    open.push({ run_key: op.run_key, from: op.from })
    if (op.run_key === broken) return Promise.reject(new Error('the disk is full'))
    const next = op.from + 1 < steps ? op.from + 1 : null
    return new Promise((resolve) => setImmediate(() => resolve({ next })))
  }
  const troubles: unknown[] = []
  // Of a writer only this op is used.
  const writer: Writer = { write: <K extends OpName>(op: OpOf<K>) => write(op as never) as Promise<never> }
  const compactor = new Compactor(writer, (error) => troubles.push(error))
  t.teardown(() => compactor.stop())
  return { clock, rounds, troubles, compactor }
}

t.test('a run is compacted half a second after it has ended, step by step', async (t) => {
  const { clock, rounds, compactor } = scene(t, { steps: 3 })
  compactor.add(7, LARGE)
  await clock.pass(490)
  t.same(rounds, [])
  t.equal(compactor.size, 1)
  await clock.pass(20)
  t.same(
    rounds.flat(),
    [0, 1, 2].map((from) => ({ run_key: 7, from }))
  )
  t.equal(compactor.size, 0)
})

t.test('ends that follow each other put it off, for five seconds and no longer', async (t) => {
  const { clock, rounds, compactor } = scene(t)
  let ended = 0
  for (let ms = 0; ms < 4500; ms += 100) {
    compactor.add(++ended, LARGE)
    await clock.pass(100)
  }
  t.same(rounds, [])
  for (let ms = 0; ms < 600; ms += 100) {
    compactor.add(++ended, LARGE)
    await clock.pass(100)
  }
  t.not(rounds.length, 0)
})

t.test('short runs go sixteen at a time, long ones four', async (t) => {
  const { clock, rounds, compactor } = scene(t)
  for (let key = 0; key < 40; key++) compactor.add(key, 8 * KB)
  await clock.pass(600)
  t.same(
    rounds.map((round) => round.length),
    [16, 16, 8]
  )
  for (let key = 0; key < 8; key++) compactor.add(key, LARGE)
  await clock.pass(600)
  t.same(
    rounds.slice(3).map((round) => round.length),
    [4, 4]
  )
})

t.test('runs of less than a page stay as they are; of unknown size is taken for large', async (t) => {
  const { clock, rounds, compactor } = scene(t)
  compactor.add(1, 4 * KB - 1)
  t.equal(compactor.size, 0)
  compactor.add(2, 4 * KB)
  compactor.add(3)
  await clock.pass(600)
  t.same(
    rounds.flat().map(({ run_key }) => run_key),
    [2, 3]
  )
})

t.test('after the stop nothing is begun', async (t) => {
  const { clock, rounds, compactor } = scene(t)
  compactor.add(1, LARGE)
  compactor.stop()
  compactor.add(2, LARGE)
  await clock.pass(10_000)
  t.same(rounds, [])
  t.equal(compactor.size, 0)
})

t.test('a run whose compaction fails is told, and the others go on', async (t) => {
  const { clock, rounds, troubles, compactor } = scene(t, { broken: 1 })
  for (const key of [1, 2, 3, 4, 5]) compactor.add(key, LARGE)
  await clock.pass(600)
  t.same(
    rounds.flat().map(({ run_key }) => run_key),
    [1, 2, 3, 4, 5]
  )
  t.match(troubles, [{ message: 'the disk is full' }])
  t.equal(compactor.size, 0)
})
