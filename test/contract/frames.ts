// Obligations of FrameReads and of frames.append.
import fc from 'fast-check'
import type { Test } from 'tap'
import type { Segment, Store } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import {
  addRun,
  addThread,
  aSettlement,
  durableRules,
  type Open,
  refuses,
  sharedRules,
  time,
  write
} from './harness.ts'

/** A segment whose frames n have the bytes `sizeOf(n)`, each filled with n. */
export function aSegment(
  epoch: number,
  first: number,
  last: number,
  sizeOf: (n: number) => number = () => 10
): Segment {
  const frames = Array.from({ length: last - first + 1 }, (_, at) => Buffer.alloc(sizeOf(first + at), first + at))
  const index = Buffer.alloc(5 * frames.length)
  for (const [at, frame] of frames.entries()) {
    index.writeUInt8(1, 5 * at)
    index.writeUInt32LE(frame.length, 5 * at + 1)
  }
  return { epoch, first, last, index, data: Buffer.concat(frames) }
}

/** Comparable, whichever kind of bytes the store answers with. */
export function plain({ epoch, first, last, index, data }: Segment) {
  return { epoch, first, last, index: Buffer.from(index).toString('hex'), data: Buffer.from(data).toString('hex') }
}

export function appendFrames(store: Store, run: Run, segment: Segment): Promise<null> {
  return write(store, { name: 'frames.append', run_key: run.key, thread_id: run.thread_id, segment })
}

async function firstsOf(store: Store, run: Run, from: number, maxBytes: number): Promise<number[]> {
  return (await store.frames.read(run.key, from, maxBytes)).map(({ first }) => first)
}

async function addNewRun(store: Store): Promise<Run> {
  const { thread_id } = await addThread(store)
  return addRun(store, thread_id)
}

export function frameStoreContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const durable = durableRules(t, open)
  test('a sweep removes, in small steps, the frames of runs that ended before, and no others', async (t, store) => {
    const runs: Run[] = []
    for (let n = 0; n < 4; n++) {
      const run = await addNewRun(store)
      for (let at = 0; at < 7; at++) await appendFrames(store, run, aSegment(1, at, at))
      runs.push(run)
    }
    const [old, older, young, going] = runs as [Run, Run, Run, Run]
    await write(store, aSettlement(old, { now: time(20) }))
    await write(store, aSettlement(older, { now: time(10) }))
    await write(store, aSettlement(young, { now: time(40) }))
    const sweep = async () => {
      let removed = 0
      let steps = 0
      for (let after: number | null = 0; after !== null; steps++) {
        const step: { removed: number; next: number | null } = await write(store, {
          name: 'frames.sweep',
          before: time(30),
          after,
          limit: 3
        })
        removed += step.removed
        after = step.next
        if (steps > 100) throw new Error('it does not end')
      }
      return removed
    }
    t.equal(await sweep(), 14)
    for (const run of [old, older]) t.equal(await store.frames.bounds(run.key), null)
    for (const run of [young, going]) t.equal((await store.frames.read(run.key, 0, 1e6)).length, 7)
    t.equal(await sweep(), 0, 'a second one finds nothing')
    await write(store, aSettlement(going, { now: time(25) }))
    t.equal(await sweep(), 7)
  })

  test('a segment is read back byte for byte', async (t, store) => {
    const run = await addNewRun(store)
    const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
    const segment = {
      epoch: 1_767_225_600_123,
      first: 0,
      last: 0,
      index: Uint8Array.of(255, 0, 1, 0, 0),
      data: everyByte
    }
    t.equal(await appendFrames(store, run, segment), null)
    const [found] = await store.frames.read(run.key, 0, 1)
    t.ok(found?.data instanceof Uint8Array && found.index instanceof Uint8Array)
    t.strictSame(found && plain(found), plain(segment))
  })

  test('reading begins with the segment that holds n, also in its middle, and goes on in order', async (t, store) => {
    const run = await addNewRun(store)
    for (const [first, last] of [
      [0, 4],
      [5, 5],
      [6, 19],
      [20, 21]
    ] as const)
      await appendFrames(store, run, aSegment(1, first, last))
    t.strictSame(await firstsOf(store, run, 0, 1e6), [0, 5, 6, 20])
    t.strictSame(await firstsOf(store, run, 4, 1e6), [0, 5, 6, 20])
    t.strictSame(await firstsOf(store, run, 5, 1e6), [5, 6, 20])
    t.strictSame(await firstsOf(store, run, 12, 1e6), [6, 20])
    t.strictSame(await firstsOf(store, run, 21, 1e6), [20])
    t.strictSame(await firstsOf(store, run, 22, 1e6), [], 'nothing behind the last')
    t.strictSame(await store.frames.read(9_999_999, 0, 1e6), [], 'nothing of a run that has none')
  })

  test('reading stops when maxBytes are together, and gives one segment at least', async (t, store) => {
    const run = await addNewRun(store)
    for (let n = 0; n < 5; n++)
      await appendFrames(
        store,
        run,
        aSegment(1, n, n, () => 100)
      )
    t.strictSame(await firstsOf(store, run, 0, 1), [0])
    t.strictSame(await firstsOf(store, run, 0, 0), [0])
    t.strictSame(await firstsOf(store, run, 0, 100), [0])
    t.strictSame(await firstsOf(store, run, 1, 300), [1, 2, 3])
    t.strictSame(await firstsOf(store, run, 0, 500), [0, 1, 2, 3, 4])
  })

  test('a reader that goes on where it was gets every frame once, whatever its budget', async (t, store) => {
    const { thread_id } = await addThread(store)
    const lengths = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(lengths, fc.integer({ min: 0, max: 200 }), fc.nat(10), async (lengths, maxBytes, start) => {
        const run = await addRun(store, thread_id)
        const written: Segment[] = []
        for (const length of lengths) {
          const first = (written.at(-1)?.last ?? -1) + 1
          written.push(aSegment(1, first, first + length - 1, (n) => n % 23))
        }
        const appends = written.map(
          (segment) => ({ name: 'frames.append', run_key: run.key, thread_id, segment }) as const
        )
        t.match(await store.apply([{ ops: appends }]), [{ ok: true }])
        const read: Segment[] = []
        for (let from = start; ; from = read.at(-1)!.last + 1) {
          const page = await store.frames.read(run.key, from, maxBytes)
          if (page.length === 0) break
          const bytes = (segments: readonly Segment[]) => segments.reduce((total, { data }) => total + data.length, 0)
          t.ok(page.length === 1 || bytes(page.slice(0, -1)) < maxBytes, 'it does not go on beyond the budget')
          read.push(...page)
        }
        t.strictSame(read.map(plain), written.filter(({ last }) => last >= start).map(plain))
      }),
      { numRuns: 25 }
    )
  })

  test('bounds tells the first n of each epoch, in order, and the last n', async (t, store) => {
    const run = await addNewRun(store)
    t.equal(await store.frames.bounds(run.key), null, 'null: no frames')
    await appendFrames(store, run, aSegment(500, 0, 2))
    t.strictSame(await store.frames.bounds(run.key), { first: 0, last: 2, epochs: [{ epoch: 500, first: 0 }] })
    await appendFrames(store, run, aSegment(500, 3, 9))
    await appendFrames(store, run, aSegment(1_767_225_600_123, 10, 10))
    await appendFrames(store, run, aSegment(1_767_225_600_123, 11, 14))
    await appendFrames(store, run, aSegment(1_767_225_600_999, 15, 15))
    t.strictSame(await store.frames.bounds(run.key), {
      first: 0,
      last: 15,
      epochs: [
        { epoch: 500, first: 0 },
        { epoch: 1_767_225_600_123, first: 10 },
        { epoch: 1_767_225_600_999, first: 15 }
      ]
    })
  })

  test('n never repeats: a segment that is stored already is refused, and its group with it', async (t, store) => {
    const run = await addNewRun(store)
    await appendFrames(store, run, aSegment(1, 0, 4))
    const again = {
      name: 'frames.append',
      run_key: run.key,
      thread_id: run.thread_id,
      segment: aSegment(2, 0, 4)
    } as const
    await refuses(t, store, again, 'refused')
    t.strictSame(await store.frames.bounds(run.key), { first: 0, last: 4, epochs: [{ epoch: 1, first: 0 }] })
  })

  test('runs do not see the frames of each other', async (t, store) => {
    const one = await addNewRun(store)
    const two = await addNewRun(store)
    await appendFrames(store, one, aSegment(1, 0, 0))
    await appendFrames(store, two, aSegment(2, 0, 7))
    t.strictSame((await store.frames.read(one.key, 0, 1e6)).map(plain), [plain(aSegment(1, 0, 0))])
    t.strictSame((await store.frames.read(two.key, 0, 1e6)).map(plain), [plain(aSegment(2, 0, 7))])
  })

  test('frames are there when their run has ended, and more may follow under a new epoch', async (t, store) => {
    const run = await addNewRun(store)
    await appendFrames(store, run, aSegment(1, 0, 4))
    await write(store, aSettlement(run))
    t.equal((await store.frames.bounds(run.key))?.last, 4)
    await appendFrames(store, run, aSegment(2, 5, 6))
    t.strictSame(await firstsOf(store, run, 0, 1e6), [0, 5])
  })

  test('nothing is appended to a thread that does not exist [Store 8]', async (t, store) => {
    const run = await addNewRun(store)
    await appendFrames(store, run, aSegment(1, 0, 4))
    await write(store, { name: 'thread.remove', thread_id: run.thread_id, user: null })
    const late = {
      name: 'frames.append',
      run_key: run.key,
      thread_id: run.thread_id,
      segment: aSegment(1, 5, 5)
    } as const
    await refuses(t, store, late, 'refused')
    t.equal(await store.frames.bounds(run.key), null)
  })

  test('bytes that are changed after they were given or read are not changed in the store', async (t, store) => {
    const run = await addNewRun(store)
    const slab = new Uint8Array(64).fill(1)
    const segment = { epoch: 1, first: 0, last: 0, index: slab.subarray(0, 5), data: slab.subarray(5, 10) }
    const expected = plain(segment)
    await appendFrames(store, run, segment)
    slab.fill(2)
    const [first] = await store.frames.read(run.key, 0, 1)
    t.strictSame(first && plain(first), expected)
    first?.data.fill(3)
    const [second] = await store.frames.read(run.key, 0, 1)
    t.strictSame(second && plain(second), expected)
  })

  durable('frames survive a restart and go on behind it', async (t, store, reopen) => {
    const run = await addNewRun(store)
    await appendFrames(store, run, aSegment(1, 0, 4))
    const again = await reopen()
    t.strictSame((await again.frames.read(run.key, 0, 1e6)).map(plain), [plain(aSegment(1, 0, 4))])
    await appendFrames(again, run, aSegment(2, 5, 5))
    t.strictSame((await again.frames.bounds(run.key))?.epochs, [
      { epoch: 1, first: 0 },
      { epoch: 2, first: 5 }
    ])
  })
}
