// Release: what comes with a run and with its readers goes with them. Actors, timers, listeners, sockets and maps.
import t from 'tap'
import { openSite, type Person, signIn, until } from '../fixtures/gateway.ts'
import { heapAfterGc } from '../fixtures/heap.ts'
import { sized } from '../fixtures/size.ts'
import type { Stream } from '../fixtures/stream.ts'

const RUNS = Number(process.env.RELEASE_RUNS ?? sized(500, 1000))
/** They make everything once that is made once: prepared statements, compiled code, connections. */
const WARM_RUNS = sized(200, 300)
const AT_ONCE = 8
const RUNS_A_THREAD = 10
/** What 20 KB that a run leaves behind would be. */
const HEAP_MB = RUNS / 50
const MB = 1024 * 1024
const WORDS = '/demo deltas=12 rate=2000'
const MODES = { stream_mode: ['messages-tuple', 'values'] }

/** A short run whose creator leaves in the middle, and three rejoins: one that leaves as well, one for the rest, one for all. */
async function oneRun(person: Person, threadId: string): Promise<void> {
  const first = await person.stream(threadId, WORDS, MODES)
  await first.untilFrames(4)
  first.leave()
  const path = first.runPath
  const again = await person.join(path)
  await again.untilFrames(6).catch(() => {})
  again.leave()
  const rest = await (await person.join(path, again.lastId)).whole()
  const all = await (await person.join(path)).whole()
  check([...again.frames, ...rest], all, again)
}

function check(parts: Stream['frames'], all: Stream['frames'], again: Stream): void {
  // One that was told everything before it left was told the end twice.
  const isTwice = again.frames.at(-1)?.event === 'end'
  if (JSON.stringify(isTwice ? parts.slice(0, -1) : parts) !== JSON.stringify(all))
    throw new Error('a rejoin has lost something')
}

async function runMany(person: Person, count: number): Promise<void> {
  let left = count
  const worker = async () => {
    while (left > 0) {
      const threadId = await person.thread()
      for (let i = 0; i < RUNS_A_THREAD && left > 0; i++) {
        left--
        await oneRun(person, threadId)
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

t.test(`${RUNS} runs with three rejoins each: maps and heap are as before`, async (t) => {
  const site = await openSite(t, { config: { title: { enabled: false }, memory: { enabled: false } } })
  const person = await signIn(site)
  const base = site.sizes()
  const isAtRest = () => JSON.stringify(site.sizes()) === JSON.stringify(base)
  await runMany(person, WARM_RUNS)
  await until(isAtRest, 'everything is let go after the first runs')
  const before = await heapAfterGc()
  const handlesBefore = process.getActiveResourcesInfo().length

  await runMany(person, RUNS)
  await until(isAtRest, 'everything is let go')
  t.strictSame(site.sizes(), base)
  const grown = (await heapAfterGc()) - before
  t.comment(`${RUNS} runs: heap ${(before / MB).toFixed(1)} MB before, ${(grown / MB).toFixed(2)} MB more after`)
  t.ok(grown < HEAP_MB * MB, `the heap is within ${HEAP_MB} MB of where it was`)
  const handles = process.getActiveResourcesInfo().length - handlesBefore
  t.ok(handles <= AT_ONCE * 2, `neither timers nor sockets remain: ${handles} more`)
})
