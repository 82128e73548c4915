// Places of a run that readers come back to: nothing that a reader has is translated again for him, where somebody has read the run so far.
import t from 'tap'
import { eventsOf, TranslatedFeed, type Translation } from '../../lib/protocols/feed.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import { Kind } from '../../lib/run/log/frame.ts'
import { RunLog } from '../../lib/run/log/run-log.ts'
import { aLog, aStoredRun, commit, HandStore } from '../fixtures/run-log.ts'

const FRAMES = 20_000
const SEEN = FRAMES * 0.99
/** Frames between two marks of so long a run, and of a read of the store. */
const FEW = 2_000

interface Said {
  readonly n: number
  readonly epoch: number
  readonly count: number
}

/** Its numbers are dense, and say nothing of frames: most have two, some none. */
function counted() {
  const made = { translated: 0 }
  const translation: Translation<{ readonly count: number }, Said> = {
    initial: { count: 0 },
    frame(_run, { count }, { n, epoch, bytes }) {
      made.translated++
      if (bytes.includes(SILENT)) return { state: { count }, events: [] }
      return { state: { count: count + 2 }, events: [0, 1].map((more) => ({ n, epoch, count: count + more })) }
    },
    end: () => []
  }
  const encoding = { bytes: () => Buffer.alloc(0) }
  const filter = filterOf(['messages-tuple'])
  const behind = (after: number) => {
    const selection = { filter, withValues: false, takes: ({ count }: Said) => count > after, key: String(after) }
    return {
      translation,
      encoding,
      selection: () => selection,
      isPast: (_: unknown, { state }: { readonly state: { readonly count: number } }) => state.count <= after + 1
    }
  }
  return { made, behind }
}

const run = aStoredRun({ run_id: 'run' })
const SILENT = 'silence'

function say(log: RunLog, count: number, word = 'word'): void {
  for (let n = 0; n < count; n++) log.append(Kind.messages, 'messages', `["${word}"]`)
}

/** A run of so many frames that somebody has read as it came, all of it stored. */
async function read(frames: number) {
  const store = new HandStore()
  const log = aLog({ store })
  const { made, behind } = counted()
  const live = new TranslatedFeed(run, log, behind(-1))
  const seen: Said[] = []
  for (let at = 0; at < frames; at += 100) {
    say(log, 100)
    seen.push(...(await eventsOf(live)))
    store.stored.push(...commit(log))
  }
  return { store, log, made, behind, seen }
}

t.test('who comes back late in a long run is translated what is new to him, also when it has ended', async (t) => {
  const { store, log, made, behind, seen } = await read(FRAMES)
  t.equal(seen.length, 2 * FRAMES)
  const after = 2 * SEEN
  for (const [what, its] of [
    ['live', log],
    ['ended', await RunLog.ended({ ...run, status: 'success' }, store)]
  ] as const) {
    made.translated = 0
    const rest = await eventsOf(new TranslatedFeed(run, its, behind(after)))
    t.strictSame(rest, seen.slice(after + 1), `${what}: what follows, each once`)
    t.ok(made.translated <= FRAMES - SEEN + FEW, `${what}: ${made.translated} frames translated of ${FRAMES}`)
  }
  const ended = await RunLog.ended({ ...run, status: 'success' }, store)
  t.strictSame(await eventsOf(new TranslatedFeed(run, ended, behind(-1))), seen, 'and who has nothing gets all')
  const beyond = await eventsOf(new TranslatedFeed(run, ended, behind(3 * FRAMES)))
  t.strictSame(beyond, [], 'behind the end there is nothing')
})

t.test('the first reader of a run finds his place by reading it, and marks it for the next', async (t) => {
  const store = new HandStore()
  const log = aLog({ store })
  say(log, FRAMES)
  store.stored.push(...commit(log))
  const { made, behind } = counted()
  const ended = await RunLog.ended({ ...run, run_id: 'unread', status: 'success' }, store)
  const after = 2 * SEEN
  const first = await eventsOf(new TranslatedFeed(ended.run, ended, behind(after)))
  t.equal(made.translated, FRAMES)
  made.translated = 0
  const again = await RunLog.ended(ended.run, store)
  t.strictSame(await eventsOf(new TranslatedFeed(ended.run, again, behind(after))), first)
  t.ok(made.translated <= FRAMES - SEEN + FEW, `${made.translated} frames translated`)
})

t.test('marks of frames that were shown and never stored are none of the attempt that follows', async (t) => {
  const { store, behind } = await read(1000)
  const lost = aLog({ store, epoch: 8, head: 1000 })
  say(lost, 1000, SILENT)
  await eventsOf(new TranslatedFeed(run, lost, behind(-1)))
  const next = aLog({ store, epoch: 9, head: 1000 })
  say(next, 2000)
  store.stored.push(...commit(next))
  const log = await RunLog.ended({ ...run, status: 'success' }, store)
  const rest = await eventsOf(new TranslatedFeed(run, log, behind(2 * 1500)))
  t.strictSame(
    rest.map(({ epoch }) => epoch),
    rest.map(() => 9)
  )
  t.equal(rest.length, 2 * 1500 - 1)
})

t.test('where the frames are gone meanwhile, a reader is told what replaces them from the beginning', async (t) => {
  const { store, behind } = await read(1000)
  store.stored.length = 0
  const gone = { ...run, status: 'success' as const, last_cursor: '7-999', final_checkpoint_id: 'state' }
  const log = await RunLog.ended(gone, store)
  const toldBehind = async (after: number) =>
    (await eventsOf(new TranslatedFeed(gone, log, behind(after)))).map(({ count }) => count)
  t.strictSame(await toldBehind(1), [2, 3], 'two frames stand for all of them')
  t.strictSame(await toldBehind(599), [], 'and no number of theirs is given to anything else')
})
