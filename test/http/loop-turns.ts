// Turns of the event loop: many long pieces of work at one time leave everybody else the loop between two of them.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { arrivals, LoopTurns } from '../../lib/base/loop-turns.ts'

/** Holds the loop, in ms. */
function work(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

/** Counts the turns of the loop. */
function counting(): { readonly turns: number; stop(): void } {
  const counted = { turns: 0, stop: () => clearImmediate(next) }
  const count = () => {
    counted.turns++
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  return counted
}

t.test('a piece at rest begins at once', async (t) => {
  const turns = new LoopTurns()
  t.equal(turns.enter('a'), undefined)
  let again: Promise<void> | undefined
  do {
    await turn()
    again = turns.enter('a')
    await again
  } while (again)
  t.pass('and so does the next one, when the loop has turned')
})

t.test(
  'of long pieces that are asked for in one turn each has its own, and others have many between two',
  async (t) => {
    const turns = new LoopTurns()
    const loop = counting()
    const seen: number[] = []
    const piece = async () => {
      await turns.enter('a')
      seen.push(loop.turns)
      work(20)
    }
    await Promise.all(Array.from({ length: 5 }, piece))
    loop.stop()
    const between = seen.slice(1).map((at, index) => at - seen[index]!)
    t.ok(
      between.every((count) => count >= 15),
      `turns between two pieces of 20 ms: ${between}`
    )
  }
)

t.test('short pieces share a turn, up to as many as may', async (t) => {
  const turns = new LoopTurns(3)
  const loop = counting()
  const seen: number[] = []
  await Promise.all(
    Array.from({ length: 7 }, async () => {
      await turns.next()
      seen.push(loop.turns)
    })
  )
  loop.stop()
  t.ok(seen.every((at) => seen.filter((other) => other === at).length <= 3))
})

t.test('who asks for most waits longest: the keys have their turns one after the other', async (t) => {
  const turns = new LoopTurns()
  const order: string[] = []
  const piece = async (key: string) => {
    await turns.next(key)
    order.push(key)
    work(5)
  }
  await Promise.all([...Array.from({ length: 5 }, () => piece('many')), piece('one')])
  t.ok(order.indexOf('one') <= 1, order.join(' '))
  t.equal(order.length, 6)
})

t.test('work that others do in a turn is not counted as a piece of it', async (t) => {
  const turns = new LoopTurns()
  const loop = counting()
  // A loop whose every turn takes longer than the pieces may take.
  const others = setInterval(() => work(6), 1)
  const before = loop.turns
  const seen: number[] = []
  for (let n = 0; n < 5; n++) {
    await turns.next()
    seen.push(loop.turns)
  }
  clearInterval(others)
  loop.stop()
  t.ok(seen.at(-1)! - before <= 20, `turns for five short pieces: ${seen.map((at) => at - before)}`)
})

t.test('while connections come, one in each turn, work that has turns waits; it does not wait for ever', async (t) => {
  const turns = new LoopTurns()
  let comings = 0
  /** One connection in each of so many turns. */
  const come = async (count: number) => {
    for (let n = 0; n < count; n++) {
      arrivals.came()
      comings++
      await turn()
    }
  }
  const begunAfter = () => Promise.resolve(turns.enter('a')).then(() => comings)
  const coming = come(50)
  t.equal(await begunAfter(), 50, 'all have come')
  await coming
  t.equal(turns.enter('a') === undefined || (await begunAfter()) === 50, true, 'at rest it begins at once')
  comings = 0
  const endless = come(2_000)
  const after = await begunAfter()
  t.ok(after > 200 && after < 400, `it begins after ${after} connections`)
  await endless
})
