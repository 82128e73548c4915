// How many frames does the store take, in transactions of 1, 10, 100 and 1,000 rows, and what does a row cost?
import { join } from 'node:path'
import { Kind } from '../lib/run/log/frame.ts'
import { aLog } from '../test/fixtures/run-log.ts'
import type { Group, Segment } from '../lib/store/store.ts'
import { frameFloor } from './driver-floors.ts'
import { frameOf } from './frame.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { makeRun, withStore } from './store.ts'

const SIZE = 60

interface Sample {
  readonly cpuPerRow: number
  readonly rowsPerS: number
  readonly p50: number
  readonly p99: number
}

/** The first tenth is not counted: a new thread has not compiled anything yet, once in its life. */
async function timed(rows: number, batch: number, write: (from: number) => unknown): Promise<Sample> {
  const times: number[] = []
  const uncounted = Math.ceil(rows / 10 / batch) * batch
  for (let from = 0; from < uncounted; from += batch) await write(from)
  const cpu = process.cpuUsage()
  const began = performance.now()
  for (let from = uncounted; from < rows; from += batch) {
    const at = performance.now()
    await write(from)
    times.push(performance.now() - at)
  }
  const wallMs = performance.now() - began
  const used = process.cpuUsage(cpu)
  return {
    cpuPerRow: (used.user + used.system) / (rows - uncounted),
    rowsPerS: (rows - uncounted) / (wallMs / 1000),
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99)
  }
}

/** What so many runs have to store: a frame each. `n`: its number. */
function segmentsOf(runs: number, n: number): Segment[] {
  const json = frameOf(SIZE).split('\n')[1]!.slice('data: '.length)
  return Array.from({ length: runs }, () => {
    const log = aLog({ epoch: 1, head: n })
    log.append(Kind.messages, 'messages', json)
    return log.take()
  }).flat()
}

/** All that a sample writes, by transaction. Made before: what it costs to make frames is not asked here. */
function transactionsOf(rows: number, batch: number): Segment[][] {
  return Array.from({ length: Math.ceil(rows / batch) }, (_, n) => segmentsOf(batch, n))
}

function ours(rows: number, batch: number, module: string | null): Promise<Sample> {
  return withStore(module, async (store) => {
    const runs: Awaited<ReturnType<typeof makeRun>>[] = []
    for (let i = 0; i < batch; i++) runs.push(await makeRun(store))
    // A group a run, as the committer has it.
    const groups = (segments: readonly Segment[]): Group[] =>
      runs.map(({ key: run_key, threadId: thread_id }, i) => ({
        ops: [{ name: 'frames.append', run_key, thread_id, segment: segments[i]! }]
      }))
    const all = transactionsOf(rows, batch).map(groups)
    return timed(rows, batch, async (from) => {
      const outcomes = await store.apply(all[from / batch]!)
      if (!outcomes.every(({ ok }) => ok)) throw new Error('the store refused a frame')
    })
  })
}

function floor(rows: number, batch: number): Promise<Sample> {
  return withStore(null, async (store, folder) => {
    // What is left of it is our schema.
    await store.close()
    const sink = frameFloor(join(folder, 'bench.db'))
    const all = transactionsOf(rows, batch)
    const sample = await timed(rows, batch, (from) => sink.write(all[from / batch]!))
    sink.close()
    return sample
  })
}

export async function commit({ quick, repeats, store }: Options): Promise<void> {
  const table: Row[] = []
  const measures: Measure[] = []
  for (const batch of [1, 10, 100, 1000]) {
    const rows = Math.max(batch * 10, quick ? 2_000 : batch === 1 ? 5_000 : 50_000)
    const [mine, bare]: [Sample[], Sample[]] = [[], []]
    for (let i = 0; i < repeats; i++) {
      mine.push(await ours(rows, batch, store))
      bare.push(await floor(rows, batch))
    }
    const pick = (samples: readonly Sample[], what: keyof Sample) => samples.map((one) => one[what])
    table.push({
      'rows a transaction': batch,
      'us/row, all threads': median(pick(mine, 'cpuPerRow')).text,
      'floor us/row': median(pick(bare, 'cpuPerRow')).text,
      ratio: short(median(pick(mine, 'cpuPerRow')).mid / median(pick(bare, 'cpuPerRow')).mid),
      'rows/s': Math.round(median(pick(mine, 'rowsPerS')).mid),
      'commit p50 ms': short(median(pick(mine, 'p50')).mid),
      'p99 ms': short(median(pick(mine, 'p99')).mid)
    })
    if (batch === 100)
      measures.push({ target: 'commit', ours: pick(mine, 'cpuPerRow'), floor: pick(bare, 'cpuPerRow') })
  }
  report('How many frames does the store take?', { repeats, size: SIZE, store: store ?? 'sqlite' }, table, measures)
}
