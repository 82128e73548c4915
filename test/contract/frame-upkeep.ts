// Obligations of frames.sweep and frames.compact: what is old goes, what is kept is read the same.
import type { Test } from 'tap'
import type { Segment, Store } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import { appendFrames, aSegment, plain } from './frames.ts'
import { addRun, addThread, aSettlement, type Open, sharedRules, startRun, time, write } from './harness.ts'

/** A run with frames. `end`: the second at which it ended; undefined: it is in flight. */
async function withFrames(store: Store, threadId: string, segments: number, end?: number): Promise<Run> {
  const run = await addRun(store, threadId)
  for (let n = 0; n < segments; n++)
    await appendFrames(
      store,
      run,
      aSegment(1, 3 * n, 3 * n + 2, () => 400)
    )
  if (end !== undefined) await write(store, aSettlement(run, { now: time(end) }))
  return run
}

/** Sweeps to the end, step by step; answers how many segments it says were removed. */
async function sweep(t: Test, store: Store, before: number, limit: number): Promise<number> {
  let removed = 0
  for (let after: number | null = 0, steps = 0; after !== null; steps++) {
    if (steps > 200) throw new Error('the sweep has no end')
    const step: { removed: number; next: number | null } = await write(store, {
      name: 'frames.sweep',
      before: time(before),
      after,
      limit
    })
    if (step.next !== null && step.next <= after) t.fail(`it goes on at ${step.next} behind ${after}`)
    removed += step.removed
    after = step.next
  }
  return removed
}

async function framesOf(store: Store, run: Run, from = 0): Promise<ReturnType<typeof plain>[]> {
  const found: Segment[] = []
  for (let n = from; ; n = found.at(-1)!.last + 1) {
    const page = await store.frames.read(run.key, n, 1000)
    if (page.length === 0) return found.map(plain)
    found.push(...page)
  }
}

/** Each frame by itself: compaction may put segments together, of one epoch. */
function framesIn(segments: readonly ReturnType<typeof plain>[]): string[] {
  return segments.flatMap(({ epoch, first, last, index, data }) => {
    const lengths = Buffer.from(index, 'hex')
    let at = 0
    return Array.from({ length: last - first + 1 }, (_, i) => {
      const length = lengths.readUInt32LE(5 * i + 1)
      const bytes = data.slice(2 * at, 2 * (at + length))
      at += length
      return `${epoch}-${first + i} ${lengths.readUInt8(5 * i)} ${bytes}`
    })
  })
}

export function frameUpkeepContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  for (const limit of [1, 2, 1000])
    test(`a sweep in steps of ${limit} removes the frames of runs that ended before, and no others`, async (t, store) => {
      const { thread_id } = await addThread(store)
      const old = [await withFrames(store, thread_id, 3, 10), await withFrames(store, thread_id, 2, 11)]
      const pending = await withFrames(store, thread_id, 2)
      const running = await withFrames(store, (await addThread(store)).thread_id, 3)
      await startRun(store, running, time(1))
      const young = await withFrames(store, thread_id, 2, 30)
      const kept = await Promise.all([pending, running, young].map((run) => framesOf(store, run)))
      t.equal(await sweep(t, store, 5, limit), 0, 'nothing has ended so long ago')
      t.equal(await sweep(t, store, 20, limit), 5, 'it says how many segments')
      for (const run of old) {
        t.equal(await store.frames.bounds(run.key), null)
        t.strictSame(await framesOf(store, run), [])
        t.match(await store.runs.get(run.run_id, null), { status: 'success' }, 'the run itself stays')
      }
      t.strictSame(await Promise.all([pending, running, young].map((run) => framesOf(store, run))), kept)
      t.equal(await sweep(t, store, 20, limit), 0, 'and once')
      await write(store, aSettlement(running, { now: time(12) }))
      t.equal(await sweep(t, store, 20, limit), 3, 'one that has ended meanwhile goes with the next')
    })

  test('a sweep that is refused with its group has removed nothing [Store 2]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await withFrames(store, thread_id, 2, 10)
    const before = await framesOf(store, run)
    const sweep = { name: 'frames.sweep', before: time(20), after: 0, limit: 10 } as const
    const refused = { name: 'seq.move', thread_id: 'missing', from: 1, to: 1 } as const
    t.match(await store.apply([{ ops: [sweep, refused] }]), [{ ok: false }])
    t.strictSame(await framesOf(store, run), before)
  })

  test('compacting the frames of an ended run changes nothing of what is read', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await withFrames(store, thread_id, 60)
    // Frames of another epoch, as a restart leaves them, and some that are large.
    for (let n = 180; n < 184; n++)
      await appendFrames(
        store,
        run,
        aSegment(2, n, n, () => 70_000)
      )
    await write(store, aSettlement(run))
    const other = await withFrames(store, thread_id, 2, 9)
    const [before, others] = [await framesOf(store, run), await framesOf(store, other)]
    const bounds = await store.frames.bounds(run.key)
    for (let from: number | null = 0, steps = 0; from !== null; steps++) {
      if (steps > 400) throw new Error('compaction has no end')
      const step: { next: number | null } = await write(store, { name: 'frames.compact', run_key: run.key, from })
      if (step.next !== null && step.next <= from) t.fail(`it goes on at ${step.next} behind ${from}`)
      t.strictSame(framesIn(await framesOf(store, run)), framesIn(before), `behind step ${steps}`)
      from = step.next
    }
    t.strictSame(await store.frames.bounds(run.key), bounds)
    for (const from of [1, 100, 179, 180, 183]) {
      const [first] = await store.frames.read(run.key, from, 1)
      t.ok(first && first.first <= from && first.last >= from, `reading begins with the segment that holds ${from}`)
    }
    t.strictSame(await framesOf(store, other), others)
    t.strictSame(
      await write(store, { name: 'frames.compact', run_key: run.key, from: 0 }),
      { next: null },
      'once is enough'
    )
    t.equal((await sweep(t, store, 20, 1000)) > 0, true)
    t.equal(await store.frames.bounds(run.key), null, 'compacted frames are swept like others')
  })
}
