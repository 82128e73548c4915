// Metrics in Prometheus' format. Gauges are read on scrape; counters are plain numbers, or updated once per commit.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry as Names } from 'prom-client'
import type { AgentObserver, ModelCallStats } from '../agent/observer.ts'
import type { Cluster, LeaseState } from '../run/cluster/cluster.ts'
import type { CommitObserver } from '../run/commit/ports.ts'
import type { Committer } from '../run/commit/committer.ts'
import type { Registry } from '../run/lifecycle/registry.ts'
import { type Buckets, counters } from '../run/log/counters.ts'
import type { Group, Op, Outcome, PoolFigures, Store } from '../store/store.ts'
import { COMMIT, VERSION } from '../base/version.ts'
import { Poller } from '../base/poller.ts'
import { withTimeout } from '../base/waiting.ts'

/** Sampling interval of the event-loop delay, in ms. Each sample is a wake-up, so it starts with the first scrape. */
const LOOP_RESOLUTION_MS = 20
const COMMIT_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const LOOP_SECONDS = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const REQUEST_SECONDS = [0.005, 0.025, 0.1, 0.5, 2.5, 10]
const MODEL_SECONDS = [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const RUN_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600]
/** Start times to remember; above it the oldest, whose runs belong to other processes by then, are dropped. */
const BEGUN_MAX = 100_000
/** Timeout of what is read of the database, in ms: Prometheus waits ten seconds for all. */
const READ_MS = 2_000
const LEASE_STATES: readonly LeaseState[] = ['held', 'lost', 'none']

type Values = Readonly<Record<string, number>>

/** Sources read on scrape. */
interface Watched {
  readonly registry: Registry
  readonly committer: Committer
  readonly store: Store
  /** null: no other process shares the database. */
  readonly cluster: Cluster | null
}

let ofProcess: Names | null = null

/** Process metrics (heap, GC, descriptors): one set for all gateways of the process, from the first scrape on. */
function processMetrics(): Names {
  if (ofProcess) return ofProcess
  ofProcess = new Names()
  collectDefaultMetrics({ register: ofProcess })
  // Its quantiles reset on every scrape, so two scrapers disturb each other; colloquy_event_loop_delay_seconds does not.
  for (const { name } of ofProcess.getMetricsAsArray())
    if (name.startsWith('nodejs_eventloop_lag')) ofProcess.removeSingleMetric(name)
  return ofProcess
}

/** What is read of a database; nothing where that fails, or takes as long as whoever scrapes would wait: all other figures are of use. */
async function readInTime(read: () => number | Values | Promise<Values>): Promise<number | Values> {
  const found = read()
  if (!(found instanceof Promise)) return found
  return (await withTimeout(found, READ_MS).catch(() => null)) ?? {}
}

/** A histogram that is not prom-client's, in the same text form. */
function spreadText(name: string, help: string, { bounds, counts, sum }: Buckets): string {
  let below = 0
  const buckets = counts.map((count, i) => {
    below += count
    return `${name}_bucket{le="${bounds[i] ?? '+Inf'}"} ${below}\n`
  })
  const head = `# HELP ${name} ${help}\n# TYPE ${name} histogram\n`
  return `${head}${buckets.join('')}${name}_sum ${sum}\n${name}_count ${below}\n`
}

export class Metrics implements AgentObserver, CommitObserver {
  readonly #names = new Names()
  readonly #commits = this.#histogram(
    'colloquy_commit_duration_seconds',
    'Duration of one store transaction',
    COMMIT_SECONDS
  )
  readonly #failures = this.#count('colloquy_commit_failures_total', 'Failed store transactions; they are retried')
  readonly #frames = this.#count('colloquy_frames_stored_total', 'Frames stored')
  readonly #events = this.#count('colloquy_events_stored_total', 'Events stored')
  readonly #refused = this.#count('colloquy_logins_refused_total', 'Refused sign-ins', ['reason'])
  readonly #requests = this.#histogram(
    'colloquy_http_request_duration_seconds',
    'Duration of a request; for a stream, until its head was sent',
    REQUEST_SECONDS,
    ['method', 'route', 'status']
  )
  readonly #runs = this.#histogram(
    'colloquy_run_duration_seconds',
    'Duration of a run, from its start to its stored end',
    RUN_SECONDS,
    ['status']
  )
  readonly #queued = this.#histogram(
    'colloquy_run_queue_seconds',
    'Time a run waited for its turn in the thread',
    RUN_SECONDS
  )
  readonly #modelCalls = this.#histogram(
    'colloquy_model_call_duration_seconds',
    'Duration of a model call, including retries',
    MODEL_SECONDS,
    ['model', 'status']
  )
  readonly #firstTokens = this.#histogram(
    'colloquy_model_first_token_seconds',
    'Time from a model call to its first delta',
    MODEL_SECONDS,
    ['model']
  )
  readonly #tokens = this.#count('colloquy_model_tokens_total', 'Tokens of model calls, as reported by providers', [
    'model',
    'direction'
  ])
  readonly #loop = this.#histogram(
    'colloquy_event_loop_delay_seconds',
    'Lateness of a 20 ms timer, from the first scrape on',
    LOOP_SECONDS
  )
  /** When runs of this process were admitted, or started, on the monotonic clock in ms. */
  readonly #begun = new Map<string, number>()
  #loopTimer: NodeJS.Timeout | null = null

  constructor() {
    this.#ofDelivery()
    this.#ofBuild()
  }

  written(groups: readonly Group[], outcomes: readonly Outcome[], ms: number): void {
    this.#commits.observe(ms / 1000)
    for (const [i, { ops }] of groups.entries()) if (outcomes[i]?.ok) for (const op of ops) this.#observe(op)
  }

  failed(): void {
    this.#failures.inc()
  }

  #observe(op: Op): void {
    if (op.name === 'frames.append') this.#frames.inc(op.segment.last - op.segment.first + 1)
    else if (op.name === 'events.append') this.#events.inc(op.events.length)
    else if (op.name === 'run.create') this.#begin(op.run.run_id)
    else if (op.name === 'run.start') {
      const queued = this.#sinceBegun(op.run_id)
      if (queued !== null) this.#queued.observe(queued)
      this.#begin(op.run_id)
    } else if (op.name === 'run.settle') {
      const took = this.#sinceBegun(op.run_id)
      this.#begun.delete(op.run_id)
      this.#runs.observe({ status: op.status }, took ?? 0)
    }
  }

  #begin(runId: string): void {
    this.#begun.delete(runId)
    this.#begun.set(runId, performance.now())
    if (this.#begun.size > BEGUN_MAX) this.#begun.delete(this.#begun.keys().next().value!)
  }

  #sinceBegun(runId: string): number | null {
    const begun = this.#begun.get(runId)
    return begun === undefined ? null : (performance.now() - begun) / 1000
  }

  /** A request was answered. `route` is the path of the table, so that ids do not become labels. */
  readonly request = (route: string, method: string, status: number, ms: number): void =>
    this.#requests.observe({ method, route, status }, ms / 1000)

  modelCall(call: ModelCallStats): void {
    const { model } = call
    this.#modelCalls.observe({ model, status: call.status }, call.durationMs / 1000)
    if (call.firstTokenMs !== null) this.#firstTokens.observe({ model }, call.firstTokenMs / 1000)
    this.#tokens.inc({ model, direction: 'input' }, call.inputTokens)
    this.#tokens.inc({ model, direction: 'output' }, call.outputTokens)
  }

  /** A sign-in was refused; `reason` is a code of the table of errors. */
  loginRefused(reason: string): void {
    this.#refused.inc({ reason })
  }

  watch({ registry, committer, store, cluster }: Watched): void {
    this.#gauge(
      'colloquy_streams_open',
      'Open streams, including those of ended runs',
      () => registry.streams.quota.held
    )
    this.#gauge('colloquy_joiners', 'Readers of frames', () => registry.readers.size)
    this.#gauge('colloquy_commit_queue', 'Writes and runs waiting for their transaction', () => committer.size)
    this.#gauge(
      'colloquy_commit_waiting_seconds',
      'How long the oldest transaction has been waiting for the store',
      () => committer.waitingMs / 1000
    )
    this.#gauge(
      'colloquy_oldest_unstored_seconds',
      'Age of the oldest frame or record not stored yet: what a kill would lose',
      () => committer.unstoredMs / 1000
    )
    this.#gauge('colloquy_runs', 'Runs of this process that have not ended', () => registry.phases(), 'status')
    const pool = (figure: keyof PoolFigures) => () =>
      Object.fromEntries(Object.entries(store.connections?.() ?? {}).map(([name, figures]) => [name, figures[figure]]))
    this.#gauge('colloquy_pool_used', 'Connections to PostgreSQL in use', pool('used'), 'pool')
    this.#gauge('colloquy_pool_idle', 'Connections to PostgreSQL that wait for work', pool('idle'), 'pool')
    this.#gauge('colloquy_pool_waiting', 'Requests that wait for a connection to PostgreSQL', pool('waiting'), 'pool')
    this.#gauge(
      'colloquy_store_bytes',
      'Size of the database and of its write-ahead log',
      async () => ({ ...(await store.size?.()) }),
      'part'
    )
    this.#gauge(
      'colloquy_jobs',
      'Webhooks, turns of crons and removals of threads and of users to come, and those that failed for good',
      async () => {
        const counts = await store.jobs.counts()
        const sum = (isMeant: boolean) =>
          counts.reduce((total, { is_dead, jobs }) => total + (is_dead === isMeant ? jobs : 0), 0)
        return { waiting: sum(false), dead: sum(true) }
      },
      'state'
    )
    this.#ofLease(cluster)
  }

  #ofLease(cluster: Cluster | null): void {
    this.#gauge(
      'colloquy_lease',
      'State of the lease by which this process owns its runs: 1 for the one it is in',
      () => {
        const now = cluster?.lease ?? 'none'
        return Object.fromEntries(LEASE_STATES.map((state) => [state, Number(state === now)]))
      },
      'state'
    )
    this.#counter('colloquy_leases_lost_total', 'Leases taken by another process', () => cluster?.losses ?? 0)
  }

  #ofDelivery(): void {
    this.#counter('colloquy_frames_delivered_total', 'Frames handed to sockets, once per reader', () => counters.frames)
    this.#counter('colloquy_delivered_bytes_total', 'Bytes handed to the sockets of streams', () => counters.bytes)
    this.#counter('colloquy_gaps_total', 'Readers that were sent a gap frame', () => counters.gaps)
    this.#counter(
      'colloquy_streams_evicted_total',
      'Streams reset because their client read nothing for too long',
      () => counters.stalled
    )
  }

  #ofBuild(): void {
    new Gauge({
      name: 'colloquy_build_info',
      help: 'Always 1; version, commit and Node.js version are labels',
      labelNames: ['version', 'commit', 'node'],
      registers: [this.#names]
    }).set({ version: VERSION, commit: COMMIT, node: process.versions.node }, 1)
  }

  #watchLoop(): void {
    let due = performance.now() + LOOP_RESOLUTION_MS
    this.#loopTimer ??= setInterval(() => {
      const now = performance.now()
      this.#loop.observe(Math.max(0, now - due) / 1000)
      due = now + LOOP_RESOLUTION_MS
    }, LOOP_RESOLUTION_MS).unref()
  }

  #histogram<Label extends string>(name: string, help: string, buckets: number[], labelNames: Label[] = []) {
    return new Histogram<Label>({ name, help, buckets, labelNames, registers: [this.#names] })
  }

  #count<Label extends string>(name: string, help: string, labelNames: Label[] = []) {
    return new Counter<Label>({ name, help, labelNames, registers: [this.#names] })
  }

  /** Read on scrape; with a `label` there is one value for each of its values. */
  #gauge(name: string, help: string, read: () => number | Values | Promise<Values>, label = ''): void {
    new Gauge({
      name,
      help,
      labelNames: label === '' ? [] : [label],
      registers: [this.#names],
      async collect() {
        const found = await readInTime(read)
        // What is not known now is not shown, and no figure of before is.
        this.reset()
        if (typeof found === 'number') this.set(found)
        else for (const [value, count] of Object.entries(found)) this.set({ [label]: value }, count)
      }
    })
  }

  /** A count that something else keeps. */
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

  async text(): Promise<{ readonly type: string; readonly body: string }> {
    this.#watchLoop()
    const lag = spreadText(
      'colloquy_fan_out_lag_seconds',
      'Time from the first due frame to the last socket written',
      counters.lag
    )
    return {
      type: this.#names.contentType,
      body: `${await this.#names.metrics()}\n${await processMetrics().metrics()}\n${lag}`
    }
  }

  stop(): void {
    if (this.#loopTimer) clearInterval(this.#loopTimer)
  }
}

// ---------------- The last hour of /metrics in memory, for charts. Sampling starts with the first request for it

const EVERY_MS = 10_000
/** Maximum age of the newest sample. */
const FRESH_MS = 4_000
const HOUR_MS = 3_600_000
/** The metrics charts use: few enough for an hour of them to be a small response. */
const NAMES =
  /^(colloquy_(runs|streams_open|joiners|commit_queue|jobs|store_bytes|logins_refused_total|frames_delivered_total|delivered_bytes_total|(run_duration|event_loop_delay|commit_duration)_seconds_(sum|count))|process_resident_memory_bytes)(\{|$)/

/** Columns of equal length. A value's name is its line of /metrics without the number; null: it did not exist at that time. */
interface Hour {
  /** Unix seconds. */
  readonly at: readonly number[]
  readonly values: Readonly<Record<string, readonly (number | null)[]>>
}

interface Reading {
  readonly ms: number
  readonly values: ReadonlyMap<string, number>
}

export class MetricsHour {
  readonly #read: () => Promise<string>
  #readings: Reading[] = []
  readonly #poller: Poller
  #hasBegun = false

  /** @param read the text of /metrics */
  constructor(read: () => Promise<string>) {
    this.#read = read
    // A failed sample is skipped.
    this.#poller = new Poller({ everyMs: EVERY_MS, work: () => this.#freshen(), onError: () => {} })
  }

  /** Samples after a Unix time; the newest is taken now. */
  async since(after: number): Promise<Hour> {
    if (!this.#hasBegun) this.#poller.start()
    this.#hasBegun = true
    await this.#freshen()
    const wanted = this.#readings.filter(({ ms }) => ms / 1000 > after)
    const names = new Set(wanted.flatMap(({ values }) => [...values.keys()]))
    return {
      at: wanted.map(({ ms }) => ms / 1000),
      values: Object.fromEntries([...names].map((name) => [name, wanted.map(({ values }) => values.get(name) ?? null)]))
    }
  }

  stop(): Promise<void> {
    this.#hasBegun = true
    return this.#poller.stop()
  }

  /** Two samples close together would show a false peak. */
  async #freshen(): Promise<void> {
    const isFresh = () => Date.now() - (this.#readings.at(-1)?.ms ?? 0) < FRESH_MS
    if (isFresh()) return
    const values = valuesIn(await this.#read())
    // Another call was faster.
    if (isFresh()) return
    const ms = Date.now()
    this.#readings = [...this.#readings.filter((one) => one.ms > ms - HOUR_MS), { ms, values }]
  }
}

/** Lines of Prometheus' text form: `name{labels} value`. */
function valuesIn(text: string): Map<string, number> {
  const values = new Map<string, number>()
  for (const line of text.split('\n')) {
    const at = line.lastIndexOf(' ')
    const value = Number(line.slice(at + 1))
    if (at > 0 && NAMES.test(line.slice(0, at)) && Number.isFinite(value)) values.set(line.slice(0, at), value)
  }
  return values
}
