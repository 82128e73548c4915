// The ticker: at once for the quiet, together for the busy, one timer for all.
import t, { type Test } from 'tap'
import type { Tickable } from '../../lib/run/log/log-reader.ts'
import { Ticker } from '../../lib/run/delivery/ticker.ts'
import { Clock } from '../fixtures/clock.ts'
import { loopTurns } from '../fixtures/until.ts'

class Counting implements Tickable {
  deliveredAt = 0
  isDue = false
  count = 0
  deliver(): void {
    this.count++
  }
}

function setUp(t: Test, coalesceMs = 10, idleShare = 0): { clock: Clock; ticker: Ticker } {
  const clock = Clock.stopFor(t)
  const ticker = new Ticker(coalesceMs, () => idleShare)
  t.teardown(() => ticker.stop())
  return { clock, ticker }
}

t.test('a quiet run is delivered at the end of the turn, and time does not have to pass', async (t) => {
  const { ticker } = setUp(t)
  const run = new Counting()
  ticker.schedule(run)
  ticker.schedule(run)
  t.equal(run.count, 0, 'not in the same call: the rest of the turn goes with it')
  await loopTurns()
  t.equal(run.count, 1)
})

t.test('what a busy run appends waits for as long as it was told to, and is delivered once', async (t) => {
  const { clock, ticker } = setUp(t)
  const run = new Counting()
  ticker.schedule(run)
  await loopTurns()
  for (let i = 0; i < 20; i++) {
    ticker.schedule(run)
    await loopTurns(1)
  }
  await clock.pass(9)
  t.equal(run.count, 1)
  await clock.pass(1)
  t.equal(run.count, 2)
})

t.test('a run that has been quiet for a while is quiet again', async (t) => {
  const { clock, ticker } = setUp(t)
  const run = new Counting()
  ticker.schedule(run)
  await loopTurns()
  await clock.pass(50)
  ticker.schedule(run)
  await loopTurns()
  t.equal(run.count, 2)
})

t.test('there is one timer for all runs, and none while nothing is due', async (t) => {
  const { clock, ticker } = setUp(t)
  const runs = Array.from({ length: 100 }, () => new Counting())
  for (const run of runs) ticker.schedule(run)
  await loopTurns()
  t.equal(clock.pending, 0)
  for (const run of runs) ticker.schedule(run)
  t.equal(clock.pending, 1)
  await clock.pass(10)
  t.ok(runs.every(({ count }) => count === 2))
  t.equal(clock.pending, 0)
})

/** Runs that append something every 5 ms for a second. @returns how often one was delivered in the second half of it */
async function load(t: Test, runs: number, deliveryMs: number, coalesceMs = 0, idleShare = 0): Promise<number> {
  const clock = Clock.stopFor(t)
  const ticker = new Ticker(coalesceMs, () => idleShare)
  t.teardown(() => ticker.stop())
  const one = new Slow(clock, deliveryMs)
  const all = [one, ...Array.from({ length: runs - 1 }, () => new Slow(clock, deliveryMs))]
  const halfASecond = async () => {
    for (const end = performance.now() + 500; performance.now() < end; await clock.pass(5))
      for (const run of all) ticker.schedule(run)
  }
  await halfASecond()
  const before = one.count
  await halfASecond()
  return one.count - before
}

class Slow extends Counting {
  readonly #clock: Clock
  readonly #takesMs: number
  constructor(clock: Clock, takesMs: number) {
    super()
    this.#clock = clock
    this.#takesMs = takesMs
  }
  override deliver(): void {
    super.deliver()
    this.#clock.burn(this.#takesMs)
  }
}

t.test('as long as deliveries take little of the time every frame goes out as it comes', async (t) => {
  const often = await load(t, 1, 0.1)
  t.ok(often >= 95, `${often} of 100 in half a second`)
})

t.test(
  'a run whose deliveries take much of the time is delivered less often, 20 times a second at least',
  async (t) => {
    const often = await load(t, 1, 8)
    t.ok(often >= 8 && often <= 12, `${often} in half a second`)
  }
)

t.test('where the loop has time left a frame goes out as it comes, unless deliveries take much of that', async (t) => {
  const often = await load(t, 1, 0.8, 0, 0.8)
  t.ok(often >= 90, `${often} in half a second: a sixth of all time, of which a quarter is left`)
  const seldom = await load(t, 1, 3, 0, 0.3)
  t.ok(seldom <= 20, `${seldom} in half a second, when they take more than is left`)
})

t.test('so are many runs of which none takes long', async (t) => {
  const often = await load(t, 100, 0.08)
  t.ok(often >= 8 && often <= 12, `${often} in half a second`)
  const few = await load(t, 4, 0.08)
  t.ok(few >= 30, `${few} of four runs`)
})

t.test('what was told as the least is the least', async (t) => {
  const often = await load(t, 1, 0.1, 20)
  t.ok(often >= 20 && often <= 25, `${often} in half a second`)
})

t.test('a crowd is delivered every 100 ms: one that takes longer than the 50 of others', async (t) => {
  const often = await load(t, 1, 60)
  t.ok(often >= 2 && often <= 5, `${often} in half a second`)
})

t.test('what helped is not taken back because it helped: the pace is steady, and does not swing', async (t) => {
  const { clock, ticker } = setUp(t, 0)
  const run = new Slow(clock, 0.8)
  const paces: number[] = []
  for (let second = 0; second < 6; second++) {
    const before = run.count
    for (const end = performance.now() + 1000; performance.now() < end; await clock.pass(10)) ticker.schedule(run)
    paces.push(run.count - before)
  }
  const steady = paces.slice(2)
  t.ok(Math.max(...steady) < 100, `coalesced: ${paces}`)
  t.ok(Math.max(...steady) - Math.min(...steady) <= 2, `steady: ${paces}`)
})

t.test('when the load is over frames go out as before', async (t) => {
  const { clock, ticker } = setUp(t)
  const run = new Slow(clock, 20)
  const step = async () => {
    ticker.schedule(run)
    await clock.pass(5)
  }
  for (let i = 0; i < 100; i++) await step()
  run.deliver = () => void run.count++
  for (let i = 0; i < 40; i++) await step()
  const before = run.count
  for (let i = 0; i < 40; i++) await step()
  t.ok(run.count - before >= 15, `${run.count - before} in 200 ms`)
})

t.test('after a stop nothing is delivered', async (t) => {
  const { clock, ticker } = setUp(t)
  const [now, later] = [new Counting(), new Counting()]
  ticker.schedule(now)
  later.deliveredAt = performance.now()
  ticker.schedule(later)
  ticker.stop()
  await clock.pass(100)
  t.same([now.count, later.count], [0, 0])
})
