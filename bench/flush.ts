// How long does a frame wait until it is stored, and what does storing cost, with many runs at a human pace?
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import type { Source } from '../lib/run/commit/ports.ts'
import { Committer } from '../lib/run/commit/committer.ts'
import { Kind, newEpoch } from '../lib/run/log/frame.ts'
import { aLog } from '../test/fixtures/run-log.ts'
import type { Group, Outcome } from '../lib/store/store.ts'
import { frameOf } from './frame.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { makeRun, withStore } from './store.ts'

const DELTAS_PER_S = 50
const WINDOW_MS = 20
const RESOLUTION_MS = 5

interface Sample {
  readonly p50: number
  readonly p99: number
  readonly cpuPerFrame: number
  readonly windowMs: number
  readonly framesPerS: number
  readonly rowsPerS: number
  readonly loopP99: number
}

/** A run that only has frames to store, and remembers when each was appended. */
class FrameSource implements Source {
  readonly #log = aLog({ epoch: newEpoch(), windowBytes: 64 * 1024 })
  readonly #runKey: number
  readonly #threadId: string
  readonly latencies: number[] = []
  isWaiting = false
  #appended: number[] = []
  #flight: { times: number[]; last: number; bytes: number } | null = null
  segments = 0

  constructor(runKey: number, threadId: string) {
    this.#runKey = runKey
    this.#threadId = threadId
  }

  append(): void {
    this.#log.append(
      Kind.messages,
      'messages',
      `[{"content":"token ","type":"AIMessageChunk","id":"${this.#threadId}"},{"langgraph_node":"agent"}]`
    )
    this.#appended.push(performance.now())
  }

  get pendingBytes(): number {
    return this.#log.unstored.bytes
  }

  take(): Group | null {
    const segments = this.#log.take()
    if (segments.length === 0) return null
    this.segments += segments.length
    this.#flight = {
      times: this.#appended,
      last: segments.at(-1)!.last,
      bytes: segments.reduce((sum, one) => sum + one.data.length, 0)
    }
    this.#appended = []
    return {
      ops: segments.map((segment) => ({
        name: 'frames.append',
        run_key: this.#runKey,
        thread_id: this.#threadId,
        segment
      }))
    }
  }

  committed(outcome: Outcome): void {
    if (!outcome.ok) throw new Error(outcome.message)
    const now = performance.now()
    for (const time of this.#flight!.times) this.latencies.push(now - time)
    this.#log.commit(this.#flight!.last, this.#flight!.bytes)
  }
}

/** Calls `append` for run 0, 1, ... in turn, as often as is due. */
async function atPace(runs: number, seconds: number, append: (run: number) => void): Promise<void> {
  const began = performance.now()
  for (let sent = 0, now = began; now < began + seconds * 1000; now = performance.now()) {
    const due = Math.floor(((now - began) / 1000) * DELTAS_PER_S * runs)
    for (; sent < due; sent++) append(sent % runs)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
}

async function ours(runs: number, flushMs: number, seconds: number, module: string | null): Promise<Sample> {
  return withStore(module, async (store) => {
    let commits = 0
    const counted = (groups: readonly Group[]) => {
      commits++
      return store.apply(groups)
    }
    const committer = new Committer(counted, { flushMs })
    const all: FrameSource[] = []
    for (let i = 0; i < runs; i++) {
      const { key, threadId } = await makeRun(store)
      all.push(new FrameSource(key, threadId))
    }
    const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
    delay.enable()
    const cpu = process.cpuUsage()
    await atPace(runs, seconds, (run) => {
      const source = all[run]!
      source.append()
      committer.schedule(source, false)
    })
    await committer.drained()
    committer.stop()
    const used = process.cpuUsage(cpu)
    const latencies = all.flatMap((source) => source.latencies)
    return {
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      cpuPerFrame: (used.user + used.system) / latencies.length,
      windowMs: (seconds * 1000) / commits,
      framesPerS: latencies.length / seconds,
      rowsPerS: all.reduce((sum, source) => sum + source.segments, 0) / seconds,
      loopP99: Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS)
    }
  })
}

/** The least: a list, a timer, one transaction of plain inserts, in the thread that has the frames. */
async function floor(runs: number, flushMs: number, seconds: number): Promise<Sample> {
  return withStore(null, async (_store, folder) => {
    const db = new Sqlite(join(folder, 'floor.db'))
    db.pragma('journal_mode = WAL')
    db.pragma('synchronous = NORMAL')
    db.exec('CREATE TABLE frames (id INTEGER PRIMARY KEY, run INTEGER, data BLOB)')
    const insert = db.prepare('INSERT INTO frames (run, data) VALUES (?, ?)')
    const frame = Buffer.from(frameOf(6))
    const latencies: number[] = []
    let waiting: { run: number; at: number }[] = []
    let commits = 0
    let timer: NodeJS.Timeout | null = null
    const flush = db.transaction((rows: typeof waiting) => {
      for (const { run } of rows) insert.run(run, frame)
    })
    const windowOver = () => {
      timer = null
      const rows = waiting
      waiting = []
      flush(rows)
      commits++
      const now = performance.now()
      for (const { at } of rows) latencies.push(now - at)
    }
    const cpu = process.cpuUsage()
    await atPace(runs, seconds, (run) => {
      waiting.push({ run, at: performance.now() })
      timer ??= setTimeout(windowOver, flushMs)
    })
    if (timer) clearTimeout(timer)
    windowOver()
    const used = process.cpuUsage(cpu)
    db.close()
    return {
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      cpuPerFrame: (used.user + used.system) / latencies.length,
      windowMs: (seconds * 1000) / commits,
      framesPerS: latencies.length / seconds,
      rowsPerS: latencies.length / seconds,
      loopP99: 0
    }
  })
}

export async function flush({ quick, repeats, store }: Options): Promise<void> {
  const seconds = quick ? 2 : 5
  const rows: Row[] = []
  const measures: Measure[] = []
  for (const [runs, flushMs] of [
    [1, WINDOW_MS],
    [50, WINDOW_MS],
    [200, WINDOW_MS],
    [1000, WINDOW_MS],
    [1000, 100]
  ] as const) {
    const [mine, bare]: [Sample[], Sample[]] = [[], []]
    for (let i = 0; i < repeats; i++) {
      mine.push(await ours(runs, flushMs, seconds, store))
      bare.push(await floor(runs, flushMs, seconds))
    }
    const pick = (samples: readonly Sample[], what: keyof Sample) => samples.map((one) => one[what])
    const mid = (what: keyof Sample) => short(median(pick(mine, what)).mid)
    rows.push({
      runs,
      'window set ms': flushMs,
      'window used ms': mid('windowMs'),
      'stored after p50 ms': median(pick(mine, 'p50')).text,
      'p99 ms': median(pick(mine, 'p99')).text,
      'floor p50 ms': median(pick(bare, 'p50')).text,
      'floor p99 ms': median(pick(bare, 'p99')).text,
      'frames/s': Math.round(mid('framesPerS')),
      'rows/s': Math.round(mid('rowsPerS')),
      'us/frame, all threads': median(pick(mine, 'cpuPerFrame')).text,
      'floor us/frame': median(pick(bare, 'cpuPerFrame')).text,
      'loop delay p99 ms': mid('loopP99')
    })
    if (runs === 200) measures.push({ target: 'flush', ours: pick(mine, 'p99'), floor: pick(bare, 'p99') })
  }
  const configuration = { repeats, seconds, deltasPerS: DELTAS_PER_S, store: store ?? 'sqlite' }
  report('How long until a frame is stored, and at what cost?', configuration, rows, measures)
}
