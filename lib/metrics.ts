// Metrics: what the process is doing, in the words of Prometheus. Figures are read when somebody asks for them; what has to be counted
// as it happens is counted in plain numbers, or once a commit.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, Registry as Names } from 'prom-client'
import type { Committer } from './run/commit/committer.ts'
import type { Registry } from './run/lifecycle/registry.ts'
import { type Spread, tally } from './run/commit/tally.ts'
import type { Group, Op, Outcome, Store } from './store/store.ts'

type Apply = (groups: readonly Group[]) => Promise<Outcome[]>

/** How often the loop's delay is measured, in ms. Each costs a wake-up, so nobody pays for it before metrics are asked for. */
const LOOP_RESOLUTION_MS = 20
const COMMIT_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** What is looked at when metrics are asked for. */
export interface Watched {
  readonly registry: Registry
  readonly committer: Committer
  readonly store: Store
}

/** A histogram that is not prom-client's, in the same text form. */
function spreadText(name: string, help: string, { bounds, counts, sum }: Spread): string {
  let below = 0
  const buckets = counts.map((count, i) => {
    below += count
    return `${name}_bucket{le="${bounds[i] ?? '+Inf'}"} ${below}\n`
  })
  const head = `# HELP ${name} ${help}\n# TYPE ${name} histogram\n`
  return `${head}${buckets.join('')}${name}_sum ${sum}\n${name}_count ${below}\n`
}

export class Metrics {
  readonly #names = new Names()
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  readonly #commits: Histogram
  readonly #failures: Counter
  readonly #ended: Counter<'status'>
  readonly #stored: Counter<'what'>
  readonly #refused: Counter<'reason'>

  constructor() {
    const registers = [this.#names]
    this.#commits = new Histogram({
      name: 'colloquy_commit_seconds',
      help: 'Time of one transaction of the store, from handing it over to its answer',
      buckets: COMMIT_SECONDS,
      registers
    })
    this.#failures = new Counter({
      name: 'colloquy_commit_failures_total',
      help: 'Transactions that the store did not take; they are tried again',
      registers
    })
    this.#ended = new Counter({
      name: 'colloquy_runs_ended_total',
      help: 'Runs whose end was stored',
      labelNames: ['status'],
      registers
    })
    this.#stored = new Counter({
      name: 'colloquy_stored_total',
      help: 'Frames and events that were stored',
      labelNames: ['what'],
      registers
    })
    this.#refused = new Counter({
      name: 'colloquy_logins_refused_total',
      help: 'Sign-ins that were refused',
      labelNames: ['reason'],
      registers
    })
    this.#tallied()
    this.#ofProcess()
  }

  /** The same writes, counted. */
  around(apply: Apply): Apply {
    return async (groups) => {
      const began = performance.now()
      try {
        const outcomes = await apply(groups)
        this.#commits.observe((performance.now() - began) / 1000)
        for (const [i, { ops }] of groups.entries()) if (outcomes[i]?.ok) for (const op of ops) this.#count(op)
        return outcomes
      } catch (error) {
        this.#failures.inc()
        throw error
      }
    }
  }

  #count(op: Op): void {
    if (op.name === 'frames.append') this.#stored.inc({ what: 'frames' }, op.segment.last - op.segment.first + 1)
    else if (op.name === 'events.append') this.#stored.inc({ what: 'events' }, op.events.length)
    else if (op.name === 'run.settle') this.#ended.inc({ status: op.status })
  }

  /** A sign-in was refused; `reason` is a code of the table of errors. */
  loginRefused(reason: string): void {
    this.#refused.inc({ reason })
  }

  /** From now on these are looked at as well. */
  watch({ registry, committer, store }: Watched): void {
    this.#gauge('colloquy_streams_open', 'Open streams, those of runs that have ended included', () => registry.streams)
    this.#gauge('colloquy_joiners', 'Readers of frames', () => registry.joiners)
    this.#gauge('colloquy_commit_queue', 'Writes and runs that wait for their transaction', () => committer.size)
    this.#gauge(
      'colloquy_commit_waiting_seconds',
      'For how long the transaction in front has been waiting for the store',
      () => committer.waitingMs / 1000
    )
    const registers = [this.#names]
    new Gauge({
      name: 'colloquy_runs',
      help: 'Runs of this process that have not ended',
      labelNames: ['status'],
      registers,
      collect() {
        for (const [status, count] of Object.entries(registry.phases())) this.set({ status }, count)
      }
    })
    new Gauge({
      name: 'colloquy_store_bytes',
      help: 'Size of the database, and of what was written but not moved into it yet (the WAL)',
      labelNames: ['part'],
      registers,
      async collect() {
        const size = await store.size?.().catch(() => null)
        if (!size) return
        this.set({ part: 'database' }, size.database)
        this.set({ part: 'wal' }, size.wal)
      }
    })
  }

  #tallied(): void {
    this.#counter('colloquy_frames_delivered_total', 'Frames handed to sockets, once a reader', () => tally.frames)
    this.#counter('colloquy_delivered_bytes_total', 'Bytes handed to sockets of streams', () => tally.bytes)
    this.#counter('colloquy_gaps_total', 'Readers that were told that frames are gone', () => tally.gaps)
    this.#counter(
      'colloquy_streams_evicted_total',
      'Streams that were reset because their client took nothing for too long',
      () => tally.stalled
    )
  }

  #ofProcess(): void {
    const loop = this.#loop
    // The timer's own time is no delay.
    const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - LOOP_RESOLUTION_MS / 1000)
    new Gauge({
      name: 'colloquy_event_loop_delay_seconds',
      help: 'Delay of the event loop since metrics were asked for last',
      labelNames: ['quantile'],
      registers: [this.#names],
      collect() {
        loop.enable()
        this.set({ quantile: '0.5' }, seconds(loop.percentile(50)))
        this.set({ quantile: '0.99' }, seconds(loop.percentile(99)))
        this.set({ quantile: '1' }, seconds(loop.max))
        loop.reset()
      }
    })
    this.#counter('process_cpu_seconds_total', 'CPU time, all threads', () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1e6
    })
    this.#gauge('process_resident_memory_bytes', 'Memory in RAM', () => process.memoryUsage.rss())
    this.#gauge('process_start_time_seconds', 'When the process began', () => Date.now() / 1000 - process.uptime())
  }

  #gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#names],
      collect() {
        this.set(read())
      }
    })
  }

  #counter(name: string, help: string, read: () => number): void {
    new Counter({
      name,
      help,
      registers: [this.#names],
      collect() {
        this.reset()
        this.inc(read())
      }
    })
  }

  /** All of it, as Prometheus reads it. */
  async text(): Promise<{ readonly type: string; readonly body: string }> {
    const lag = spreadText(
      'colloquy_fan_out_lag_seconds',
      'Time from the first frame that is due to the last socket that has it',
      tally.lag
    )
    return { type: this.#names.contentType, body: `${await this.#names.metrics()}\n${lag}` }
  }

  stop(): void {
    this.#loop.disable()
  }
}
