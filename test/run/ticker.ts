// The ticker: at once for the quiet, together for the busy, one timer for all.
import t, { type Test } from 'tap'
import { type Tickable, Ticker } from '../../lib/run/ticker.ts'
import { Clock } from '../fixtures/clock.ts'
import { turns } from '../fixtures/until.ts'

class Counting implements Tickable {
  deliveredAt = 0
  isDue = false
  count = 0
  deliver(): void {
    this.count++
  }
}

function setUp(t: Test): { clock: Clock; ticker: Ticker } {
  const clock = Clock.stopFor(t)
  const ticker = new Ticker()
  t.teardown(() => ticker.stop())
  return { clock, ticker }
}

t.test('a quiet run is delivered at the end of the turn, and time does not have to pass', async (t) => {
  const { ticker } = setUp(t)
  const run = new Counting()
  ticker.due(run)
  ticker.due(run)
  t.equal(run.count, 0, 'not in the same call: the rest of the turn goes with it')
  await turns()
  t.equal(run.count, 1)
})

t.test('what a busy run appends is gathered for 10 ms, and delivered once', async (t) => {
  const { clock, ticker } = setUp(t)
  const run = new Counting()
  ticker.due(run)
  await turns()
  for (let i = 0; i < 20; i++) {
    ticker.due(run)
    await turns(1)
  }
  await clock.pass(9)
  t.equal(run.count, 1)
  await clock.pass(1)
  t.equal(run.count, 2)
})

t.test('a run that has been quiet for a while is quiet again', async (t) => {
  const { clock, ticker } = setUp(t)
  const run = new Counting()
  ticker.due(run)
  await turns()
  await clock.pass(50)
  ticker.due(run)
  await turns()
  t.equal(run.count, 2)
})

t.test('there is one timer for all runs, and none while nothing is due', async (t) => {
  const { clock, ticker } = setUp(t)
  const runs = Array.from({ length: 100 }, () => new Counting())
  for (const run of runs) ticker.due(run)
  await turns()
  t.equal(clock.pending, 0)
  for (const run of runs) ticker.due(run)
  t.equal(clock.pending, 1)
  await clock.pass(10)
  t.ok(runs.every(({ count }) => count === 2))
  t.equal(clock.pending, 0)
})

t.test(
  'when deliveries take long more is gathered, up to 50 ms, and 100 for a crowd: the loop stays free for others',
  async (t) => {
    const { clock, ticker } = setUp(t)
    const slow = new Counting()
    let takesMs = 0
    slow.deliver = () => {
      slow.count++
      clock.burn(takesMs)
    }
    const busy = async () => {
      slow.deliveredAt = performance.now()
      ticker.due(slow)
      let waited = 0
      for (const before = slow.count; slow.count === before; waited++) await clock.pass(1)
      return waited
    }
    t.equal(await busy(), 10)
    takesMs = 8
    await busy()
    t.ok((await busy()) >= 25, 'four times as long as a delivery took')
    takesMs = 20
    await busy()
    t.equal(await busy(), 50, 'and no longer')
    takesMs = 1000
    await busy()
    t.equal(await busy(), 100, 'unless a delivery takes longer than that')
  }
)

t.test('after a stop nothing is delivered', async (t) => {
  const { clock, ticker } = setUp(t)
  const [now, later] = [new Counting(), new Counting()]
  ticker.due(now)
  later.deliveredAt = performance.now()
  ticker.due(later)
  ticker.stop()
  await clock.pass(100)
  t.same([now.count, later.count], [0, 0])
})
