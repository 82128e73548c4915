// The last hour of /metrics in memory, for charts. Sampling starts with the first request for it.
import { Poller } from '../base/poller.ts'

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
