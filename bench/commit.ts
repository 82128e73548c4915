// How long does a frame wait until it is stored, and what does storing cost, with many runs at a human pace?
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Committer, type Source } from '../lib/run/committer.ts'
import { Kind } from '../lib/run/filter.ts'
import { FrameLog, newEpoch } from '../lib/run/frames.ts'
import { openSqliteStore } from '../lib/store/sqlite/open.ts'
import type { Group, Outcome, Store } from '../lib/store/store.ts'
import { newThread } from '../lib/thread/thread.ts'
import { NO_TOTALS, timestamp } from '../lib/types.ts'
import { quantile, type Row, report, short } from './report.ts'

const DELTAS_PER_S = 50

/** A run that only has frames to store, and remembers when each was appended. */
class FrameSource implements Source {
  readonly #log = new FrameLog(newEpoch(), 64 * 1024)
  readonly #runKey: number
  readonly #threadId: string
  readonly latencies: number[] = []
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

async function sources(store: Store, count: number): Promise<FrameSource[]> {
  const made: FrameSource[] = []
  for (let i = 0; i < count; i++) {
    const thread_id = `thread-${i}`
    const now = timestamp()
    const fields = {
      status: 'pending',
      multitask_strategy: 'reject',
      metadata: {},
      kwargs: {},
      created_at: now,
      updated_at: now
    } as const
    const empty = {
      user_id: null,
      assistant_id: null,
      model_name: null,
      error: null,
      stop_reason: null,
      follow_up_to_run_id: null
    }
    const ends = {
      first_human_message: null,
      last_ai_message: null,
      last_cursor: null,
      final_checkpoint_id: null,
      idempotency_key: null,
      idempotency_hash: null
    }
    const run = { ...NO_TOTALS, ...fields, ...empty, ...ends, run_id: `run-${i}`, thread_id }
    const thread = newThread({ thread_id, user_id: null, assistant_id: null, metadata: {} }, now)
    const [outcome] = await store.apply([
      {
        ops: [
          { name: 'thread.create', ...thread },
          { name: 'run.create', run, autoFollowUp: false }
        ]
      }
    ])
    if (!outcome?.ok) throw new Error('the bench could not make its runs')
    // The second op answers an admission.
    made.push(new FrameSource((outcome.results[1] as { run: { key: number } }).run.key, thread_id))
  }
  return made
}

/** Runs at a human pace against any store: `open` makes an empty one. */
export async function commitRow(runs: number, flushMs: number, seconds: number): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const path = join(folder, 'bench.db')
  const store = await openSqliteStore(path)
  let commits = 0
  const counted = (groups: readonly Group[]) => {
    commits++
    return store.apply(groups)
  }
  const committer = new Committer(counted, { flushMs })
  try {
    const all = await sources(store, runs)
    const delay = monitorEventLoopDelay({ resolution: 5 })
    delay.enable()
    const cpu = process.cpuUsage()
    for (
      const end = performance.now() + seconds * 1000, began = performance.now(), sent = { n: 0 };
      performance.now() < end;
    ) {
      const due = Math.floor(((performance.now() - began) / 1000) * DELTAS_PER_S * runs)
      for (; sent.n < due; sent.n++) {
        const source = all[sent.n % runs]!
        source.append()
        committer.due(source, false)
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await committer.drained()
    const used = process.cpuUsage(cpu)
    const latencies = all.flatMap((source) => source.latencies)
    const rows = all.reduce((sum, source) => sum + source.segments, 0)
    return {
      runs,
      flush_ms: flushMs,
      'window ms (mean)': short((seconds * 1000) / commits),
      'stored after p50 ms': short(quantile(latencies, 0.5)),
      'p99 ms': short(quantile(latencies, 0.99)),
      'frames/s': Math.round(latencies.length / seconds),
      'rows/s': Math.round(rows / seconds),
      'CPU us/frame (both threads)': short((used.user + used.system) / latencies.length),
      'loop delay p99 ms': short(delay.percentile(99) / 1e6),
      'WAL+file MB': short((statSync(path).size + statSync(`${path}-wal`).size) / 1e6)
    }
  } finally {
    committer.stop()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

export async function commit(options: { quick: boolean }): Promise<void> {
  const seconds = options.quick ? 2 : 5
  const rows: Row[] = []
  for (const flushMs of [20, 100])
    for (const runs of [1, 50, 200, 1000]) rows.push(await commitRow(runs, flushMs, seconds))
  report('How long until a frame is stored, and at what cost?', { seconds, deltasPerS: DELTAS_PER_S }, rows)
}
