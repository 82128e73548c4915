// What does it cost to compress the frames of ended runs, and to delete the rows that had them?
import { createHash } from 'node:crypto'
import { brotliCompressSync, constants } from 'node:zlib'
import { Kind } from '../lib/run/log/frame.ts'
import type { Op, Store } from '../lib/store/store.ts'
import { aLog } from '../test/fixtures/run-log.ts'
import { frameOf } from './frame.ts'
import type { Options } from './options.ts'
import { median, type Row, report, short } from './report.ts'
import { makeRun, withStore } from './store.ts'

/** A row has one frame, as with 50 deltas a second and a window of 20 ms. */
const FRAMES = 1000
const SIZE = 60
/** As many as the compactor works on at once. */
const AT_ONCE = 4
/** As packing.ts compresses. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 18 } }
const BLOCK_BYTES = 64 * 1024
/** The deltas of a run, the same each time, and each another text: what repeats itself costs nothing to compress. */
const DELTAS = Array.from({ length: FRAMES }, (_, n) => {
  const text = createHash('sha256').update(`${n}`).digest('hex').slice(0, SIZE)
  return frameOf(SIZE).split('\n')[1]!.slice('data: '.length).replace('x'.repeat(SIZE), text)
})

interface Sample {
  readonly cpuPerFrame: number
  readonly wallPerFrame: number
  readonly floorPerFrame: number
}

async function applied(store: Store, ops: readonly Op[]): Promise<readonly unknown[]> {
  const outcomes = await store.apply(ops.map((op) => ({ ops: [op] })))
  return outcomes.map((outcome) => {
    if (!outcome.ok) throw new Error(`the store has refused it: ${outcome.message}`)
    return outcome.results[0]
  })
}

/** Makes a run with frames, a row each; answers its key. */
async function written(store: Store): Promise<number> {
  const { key, threadId } = await makeRun(store)
  const log = aLog({ epoch: 1, head: 1 })
  const ops: Op[] = []
  for (const json of DELTAS) {
    log.append(Kind.messages, 'messages', json)
    for (const segment of log.take())
      ops.push({ name: 'frames.append', run_key: key, thread_id: threadId, segment } satisfies Op)
  }
  for (let from = 0; from < ops.length; from += 100) await applied(store, ops.slice(from, from + 100))
  return key
}

/** Compacts these runs, a step of each in a transaction. */
async function compacted(store: Store, keys: readonly number[]): Promise<void> {
  for (let left = keys.map((run_key) => ({ run_key, from: 0 })); left.length > 0; ) {
    const results = await applied(
      store,
      left.map((step) => ({ name: 'frames.compact', ...step }))
    )
    left = left.flatMap(({ run_key }, at) => {
      // What `frames.compact` answers.
      const { next } = results[at] as { next: number | null }
      return next === null ? [] : [{ run_key, from: next }]
    })
  }
}

async function usPer(frames: number, work: () => Promise<void> | void): Promise<{ cpu: number; wall: number }> {
  const [cpu, began] = [process.cpuUsage(), performance.now()]
  await work()
  const wall = performance.now() - began
  const { user, system } = process.cpuUsage(cpu)
  return { cpu: (user + system) / frames, wall: (wall * 1000) / frames }
}

async function sample(runs: number): Promise<Sample> {
  return withStore(null, async (store) => {
    const keys: number[] = []
    for (let i = 0; i < runs + AT_ONCE; i++) keys.push(await written(store))
    // The first are not counted: the thread has compiled nothing yet.
    await compacted(store, keys.splice(0, AT_ONCE))
    const frames = runs * FRAMES
    const { cpu, wall } = await usPer(frames, async () => {
      for (let from = 0; from < keys.length; from += AT_ONCE) await compacted(store, keys.slice(from, from + AT_ONCE))
    })
    const bytes = Buffer.from(DELTAS.join('\n'))
    const floor = await usPer(frames, () => {
      for (let run = 0; run < runs; run++)
        for (let from = 0; from < bytes.length; from += BLOCK_BYTES)
          brotliCompressSync(bytes.subarray(from, from + BLOCK_BYTES), BROTLI)
    })
    return { cpuPerFrame: cpu, wallPerFrame: wall, floorPerFrame: floor.cpu }
  })
}

export async function compaction({ quick, repeats }: Options): Promise<void> {
  const runs = quick ? 8 : 64
  const samples: Sample[] = []
  for (let i = 0; i < repeats; i++) samples.push(await sample(runs))
  const row: Row = {
    runs,
    'frames a run': FRAMES,
    'us/frame, all threads': median(samples.map((one) => one.cpuPerFrame)).text,
    'us/frame by the clock': median(samples.map((one) => one.wallPerFrame)).text,
    'floor: brotli alone': short(median(samples.map((one) => one.floorPerFrame)).mid)
  }
  report('What does it cost to compress the frames of ended runs?', { repeats, store: 'sqlite' }, [row], [])
}
