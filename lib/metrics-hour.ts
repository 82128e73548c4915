// The last hour of the process, in memory: readings of the counters of /metrics, for charts. It begins when somebody first looks, so
// that nobody pays for what nobody sees, and goes on as long as the process does.

const EVERY_MS = 10_000
/** Who looks gets a reading that is no older than this. */
const FRESH_MS = 4_000
const HOUR_MS = 3_600_000
/** What charts are drawn of: few enough that an hour of them is one small answer. */
const NAMES =
  /^(colloquy_(runs|streams_open|joiners|commit_queue|store_bytes|logins_refused_total|frames_delivered_total|delivered_bytes_total|(run_duration|event_loop_delay|commit_duration)_seconds_(sum|count))|process_resident_memory_bytes)(\{|$)/

/** Columns of one length: a line of /metrics without its value, and its values at those times; null where there was none. */
export interface Hour {
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
  #timer: NodeJS.Timeout | null = null

  /** @param read the text of /metrics */
  constructor(read: () => Promise<string>) {
    this.#read = read
  }

  /** The readings behind a time, in Unix seconds; the newest is of now. */
  async since(after: number): Promise<Hour> {
    // A reading that fails is one that is missing.
    this.#timer ??= setInterval(() => void this.#freshen().catch(() => {}), EVERY_MS).unref()
    await this.#freshen()
    const wanted = this.#readings.filter(({ ms }) => ms / 1000 > after)
    const names = new Set(wanted.flatMap(({ values }) => [...values.keys()]))
    return {
      at: wanted.map(({ ms }) => ms / 1000),
      values: Object.fromEntries([...names].map((name) => [name, wanted.map(({ values }) => values.get(name) ?? null)]))
    }
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** Two readings at nearly one time would make a peak of what is none. */
  async #freshen(): Promise<void> {
    const isFresh = () => Date.now() - (this.#readings.at(-1)?.ms ?? 0) < FRESH_MS
    if (isFresh()) return
    const values = valuesIn(await this.#read())
    // Somebody else was faster.
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
