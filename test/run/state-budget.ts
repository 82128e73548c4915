// What states take of the heap while their runs go on: a long one waits for others, and one that is too long begins nothing.
import t from 'tap'
import { StateBudget } from '../../lib/run/state-budget.ts'
import type { Share } from '../../lib/base/budget.ts'
import type { StateBefore } from '../../lib/run/run-state.ts'
import { State } from '../../lib/thread/state.ts'

const MOST = 100_000
/** Room for two of the longest a user, and four of all. */
const HEAP = 2 * 4 * 4 * MOST

function budget(): StateBudget {
  return new StateBudget(MOST, HEAP)
}

function stateOf(characters: number): StateBefore {
  return { saved: { state: State.empty, characters, checkpointId: 'a', step: 0, next: [] }, newest: null }
}

/** As a run reads its state. */
async function within(
  budget: StateBudget,
  userId: string | null,
  signal: AbortSignal,
  read: () => Promise<StateBefore>,
  share: Share | null = null
): Promise<StateBefore | null> {
  const again = (own: Share) => within(budget, userId, signal, read, own)
  return budget.within(await read(), { userId, signal, share }, again)
}

/** A run with a state of so many characters: whether it has begun, how often its state was read, and its end. */
function run(budget: StateBudget, userId: string | null, characters: number) {
  const abort = new AbortController()
  const seen = { hasBegun: false, reads: 0, end: () => abort.abort(), begun: Promise.resolve<StateBefore | null>(null) }
  const read = async () => {
    seen.reads++
    return stateOf(characters)
  }
  seen.begun = within(budget, userId, abort.signal, read)
  seen.begun.then(
    () => {
      seen.hasBegun = true
    },
    () => {}
  )
  return seen
}

/** All that can go on has gone on. */
const settled = () => new Promise(setImmediate)

t.test('a state that is too long is an error for the user, and the longest is none', async (t) => {
  await t.resolves(run(budget(), 'ann', MOST).begun)
  await t.rejects(run(budget(), 'ann', MOST + 1).begun, {
    kind: 'ConversationTooLong',
    message: "The thread's state has 100001 characters, more than 100000: compact it, or begin a new thread"
  })
})

t.test('a thread that has no state yet begins at once', async (t) => {
  const { signal } = new AbortController()
  t.match(await within(budget(), 'ann', signal, async () => ({ saved: null, newest: null })), { saved: null })
})

t.test(
  'long states of a user wait until one of them has ended, and are read again then; short ones and those of others do not',
  async (t) => {
    const room = budget()
    const first = run(room, 'ann', MOST)
    const second = run(room, 'ann', MOST)
    const third = run(room, 'ann', MOST)
    const short = run(room, 'ann', 100)
    const other = run(room, 'bob', MOST)
    await settled()
    t.match(
      [first, second, third, short, other].map(({ hasBegun }) => hasBegun),
      [true, true, false, true, true]
    )
    first.end()
    await settled()
    t.ok(third.hasBegun)
    t.equal(third.reads, 2)
  }
)

t.test('all users together have a bound', async (t) => {
  const room = budget()
  const many = ['ann', 'bob', 'cid', 'dan', null].map((user) => run(room, user, MOST))
  await settled()
  t.strictSame(
    many.map(({ hasBegun }) => hasBegun),
    [true, true, true, true, false]
  )
  many[1]!.end()
  await settled()
  t.ok(many[4]!.hasBegun)
})

t.test('a run that ends while it waits, or is read, takes nothing', async (t) => {
  const room = budget()
  const [first, second] = [run(room, 'ann', MOST), run(room, 'ann', MOST)]
  const waiting = run(room, 'ann', MOST)
  const read = run(room, 'bob', MOST)
  read.end()
  await settled()
  waiting.end()
  await t.rejects(waiting.begun, { name: 'AbortError' })
  await t.rejects(read.begun, { name: 'AbortError' })
  first.end()
  second.end()
  const next = ['bob', 'bob', 'ann', 'ann'].map((user) => run(room, user, MOST))
  await settled()
  t.ok(next.every(({ hasBegun }) => hasBegun))
})

t.test('a state that cannot be read when there is room for it leaves that to others', async (t) => {
  const room = budget()
  const [first, second] = [run(room, 'ann', MOST), run(room, 'ann', MOST)]
  let reads = 0
  const failing = within(room, 'ann', new AbortController().signal, async () => {
    if (++reads === 2) throw new Error('not now')
    return stateOf(MOST)
  })
  await settled()
  first.end()
  await t.rejects(failing, { message: 'not now' })
  second.end()
  const next = [run(room, 'ann', MOST), run(room, 'ann', MOST)]
  await settled()
  t.ok(next.every(({ hasBegun }) => hasBegun))
})
