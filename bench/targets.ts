// What the gateway is to reach: each row a scenario, its floor, and the bounds of "excellent" and "good". Where there is a floor the
// bound is a ratio to it, measured in the same minutes; where there is none, or a person waits, it is a figure of its own.
import { type Entry, type Measure, median, type Row, short } from './report.ts'

/** All that is given must hold. */
interface Bound {
  /** Ours divided by the floor, at most. */
  readonly ratio?: number
  /** Above the floor, at most. */
  readonly more?: number
  readonly atMost?: number
  readonly atLeast?: number
}

interface Target {
  readonly scenario: string
  readonly unit: string
  /** What the floor does. */
  readonly floor: string
  readonly excellent: Bound
  readonly good: Bound
}

const frame = 'us/frame'

export const TARGETS = {
  'delta-one': {
    scenario: 'a run of a model, 50 deltas/s, one reader',
    unit: frame,
    floor: 'eventsource-parser and a bare response',
    excellent: { ratio: 1.6 },
    good: { ratio: 2.3 }
  },
  'delta-ten': {
    scenario: 'ten readers, 100 frames/s',
    unit: frame,
    floor: 'a framed socket.write a frame',
    excellent: { ratio: 1.85 },
    good: { ratio: 2.7 }
  },
  'delta-flat': {
    scenario: 'a run of a model, flat out',
    unit: frame,
    floor: 'eventsource-parser and a bare response',
    excellent: { ratio: 2 },
    good: { ratio: 3.2 }
  },
  'delta-hundred': {
    scenario: '100 readers, 100 frames/s, not gathered',
    unit: frame,
    floor: 'a framed socket.write a frame',
    excellent: { ratio: 1.1 },
    good: { ratio: 1.9 }
  },
  'delta-gathered': {
    scenario: '100 readers, 100 frames/s, gathered for 20 ms',
    unit: frame,
    floor: 'a joined write every 20 ms',
    excellent: { ratio: 2 },
    good: { ratio: 3 }
  },
  'delta-first': {
    scenario: 'first delta of a new run of a model, 50 at once',
    unit: 'ms, p50',
    floor: 'eventsource-parser and a bare response',
    excellent: { ratio: 3.5 },
    good: { ratio: 9 }
  },
  'age-runs': {
    scenario: 'age of a delta at its reader, 50 runs of a model, 50/s each',
    unit: 'ms p50',
    floor: 'eventsource-parser and a bare response',
    excellent: { more: 2 },
    good: { atMost: 20 }
  },
  'age-hundred': {
    scenario: 'age of a delta at its reader, 100 readers of a run, 100/s',
    unit: 'ms p50',
    floor: 'a framed socket.write a frame',
    excellent: { more: 3 },
    good: { atMost: 20 }
  },
  'age-thousand': {
    scenario: 'age of a delta at its reader, 1,000 readers of a run, 100/s',
    unit: 'ms p50',
    floor: 'a framed socket.write a frame',
    excellent: { more: 12 },
    good: { atMost: 34 }
  },
  'fanout-100': {
    scenario: '100 readers, 100 frames/s',
    unit: frame,
    floor: 'a framed socket.write a frame',
    excellent: { ratio: 1.15 },
    good: { ratio: 1.9 }
  },
  'fanout-100-gathered': {
    scenario: '100 readers, 100 frames/s, gathered for up to 50 ms',
    unit: frame,
    floor: 'a joined write every 50 ms',
    excellent: { ratio: 1.3 },
    good: { ratio: 2 }
  },
  'fanout-1000': {
    scenario: '1,000 readers, 100 frames/s',
    unit: frame,
    floor: 'a joined write every 50 ms',
    excellent: { ratio: 1.4 },
    good: { ratio: 6 }
  },
  'fanout-5000': {
    scenario: '5,000 readers, 100 frames/s',
    unit: frame,
    floor: 'a joined write every 100 ms',
    excellent: { ratio: 1.3 },
    good: { ratio: 2.9 }
  },
  'latency-1': {
    scenario: 'age of a frame at its reader, one reader, 100 frames/s',
    unit: 'ms p50',
    floor: 'a framed socket.write a frame',
    excellent: { atMost: 1.5 },
    good: { atMost: 3 }
  },
  'latency-100': {
    scenario: 'age of a frame at its reader, 100 readers, 100 frames/s',
    unit: 'ms p50',
    floor: 'a framed socket.write a frame',
    excellent: { atMost: 20 },
    good: { atMost: 50 }
  },
  'fanout-flat': {
    scenario: '100 readers, as fast as they take it',
    unit: frame,
    floor: '16 frames in a write',
    excellent: { ratio: 1.5 },
    good: { ratio: 4 }
  },
  'fanout-flat-rate': {
    scenario: '100 readers, as fast as they take it',
    unit: 'frames/s',
    floor: '16 frames in a write',
    excellent: { atLeast: 800_000 },
    good: { atLeast: 400_000 }
  },
  'protocol-sse-100': {
    scenario: '100 readers of protocol v2 over SSE, 100 frames/s',
    unit: frame,
    floor: 'a framed socket.write an event',
    excellent: { ratio: 1.3 },
    good: { ratio: 2 }
  },
  'protocol-websocket-100': {
    scenario: '100 readers of protocol v2 over WebSockets, 100 frames/s',
    unit: frame,
    floor: 'ws.send an event',
    excellent: { ratio: 1.3 },
    good: { ratio: 2 }
  },
  'encodings-200': {
    scenario: '200 readers of one run in five encodings, 100 frames/s',
    unit: frame,
    floor: '200 readers of the dearest one',
    excellent: { ratio: 1.3 },
    good: { ratio: 2 }
  },
  'runs-paced': {
    scenario: '200 runs, 50 frames/s each',
    unit: frame,
    floor: 'framed writes, one timer of 20 ms',
    excellent: { ratio: 1.3 },
    good: { ratio: 1.8 }
  },
  'runs-flat': {
    scenario: '50 runs, flat out',
    unit: frame,
    floor: 'res.write a frame',
    excellent: { ratio: 1.4 },
    good: { ratio: 2 }
  },
  'relay-paced': {
    scenario: '200 runs of a model, 50 frames/s each',
    unit: frame,
    floor: 'eventsource-parser and a bare response',
    excellent: { ratio: 1.3 },
    good: { ratio: 1.8 }
  },
  'relay-flat': {
    scenario: '50 runs of a model, flat out',
    unit: frame,
    floor: 'eventsource-parser and a bare response',
    excellent: { ratio: 1.3 },
    good: { ratio: 1.8 }
  },
  'first-1': {
    scenario: 'first frame of a new run',
    unit: 'ms, p50',
    floor: 'a head and a frame',
    excellent: { atMost: 5 },
    good: { atMost: 10 }
  },
  'first-50': {
    scenario: 'first frame of a new run, 50 at once',
    unit: 'ms, p50',
    floor: 'a head and a frame',
    excellent: { atMost: 25 },
    good: { atMost: 60 }
  },
  'replay-memory': {
    scenario: '10,000 frames again, log in memory',
    unit: frame,
    floor: 'slabs in memory',
    excellent: { ratio: 2 },
    good: { ratio: 5 }
  },
  'replay-memory-rate': {
    scenario: '10,000 frames again, log in memory',
    unit: 'MB/s',
    floor: 'slabs in memory',
    excellent: { atLeast: 300 },
    good: { atLeast: 150 }
  },
  'replay-memory-first': {
    scenario: '10,000 frames again, log in memory',
    unit: 'ms to the first',
    floor: 'slabs in memory',
    excellent: { atMost: 2 },
    good: { atMost: 5 }
  },
  'replay-store': {
    scenario: '10,000 frames again, out of SQLite',
    unit: frame,
    floor: 'slabs in memory',
    excellent: { atMost: 6 },
    good: { atMost: 10 }
  },
  idle: {
    scenario: 'a reader to whom nothing is sent',
    unit: 'KB of memory',
    floor: 'an open response',
    excellent: { atMost: 18 },
    good: { atMost: 25 }
  },
  join: {
    scenario: 'joining: request, credential, head, first frame',
    unit: 'us of CPU',
    floor: 'a head and a frame',
    excellent: { atMost: 300 },
    good: { atMost: 450 }
  },
  commit: {
    scenario: 'storing 100 rows in a transaction',
    unit: 'us/row',
    floor: 'the same rows by better-sqlite3',
    excellent: { atMost: 10 },
    good: { atMost: 14 }
  },
  'store-sqlite': {
    scenario: '100 events in a transaction, SQLite',
    unit: 'us/row',
    floor: 'the same rows by better-sqlite3',
    excellent: { ratio: 1.3 },
    good: { ratio: 2 }
  },
  'store-postgres': {
    scenario: '100 events in a transaction, PostgreSQL, its server included',
    unit: 'us/row',
    floor: 'the same rows by one INSERT of the driver',
    excellent: { ratio: 1.3 },
    good: { ratio: 2 }
  },
  flush: {
    scenario: 'from a delta to its commit, 200 runs, 50/s each',
    unit: 'ms, p99',
    floor: 'a window of 20 ms and an insert',
    excellent: { ratio: 2 },
    good: { ratio: 4 }
  },
  loop: {
    scenario: 'delay of the event loop, 200 runs, 50/s each',
    unit: 'ms, p99',
    floor: 'framed writes, one timer of 20 ms',
    excellent: { atMost: 20 },
    good: { atMost: 40 }
  },
  threads: {
    scenario: 'a page of 100,000 threads',
    unit: 'ms, p50',
    floor: 'of 100 threads',
    excellent: { ratio: 2 },
    good: { ratio: 4 }
  },
  events: {
    scenario: 'the newest page of 1,000,000 events',
    unit: 'ms, p50',
    floor: 'of 1,000 events',
    excellent: { ratio: 2 },
    good: { ratio: 4 }
  },
  turns: {
    scenario: 'a page of the messages of 2,000 turns',
    unit: 'ms, p50',
    floor: 'of 10 turns',
    excellent: { ratio: 2 },
    good: { ratio: 4 }
  },
  state: {
    scenario: 'the state of a thread of 2,000 turns',
    unit: 'ms, p50',
    floor: 'that much JSON, read from SQLite, parsed and written',
    excellent: { ratio: 1.2 },
    good: { ratio: 2 }
  },
  history: {
    scenario: 'the history of a thread of 2,000 turns',
    unit: 'ms, p50',
    floor: 'that much JSON, read from SQLite, parsed and written',
    excellent: { ratio: 1.2 },
    good: { ratio: 2 }
  },
  storage: {
    scenario: 'what a MB of answers in deltas of 5 characters takes on disk',
    unit: 'MB',
    floor: 'the text',
    excellent: { ratio: 3 },
    good: { ratio: 5 }
  },
  logins: {
    scenario: 'from frame to frame beside 50 sign-ins a second',
    unit: 'ms, p99',
    floor: 'without sign-ins',
    excellent: { ratio: 2 },
    good: { ratio: 4 }
  }
} as const satisfies Readonly<Record<string, Target>>

export type TargetName = keyof typeof TARGETS
export type Verdict = 'excellent' | 'good' | 'short'

/** What a measure comes to. */
export interface Result {
  readonly target: TargetName
  readonly ours: number
  readonly floor: number | null
  readonly ratio: number | null
  readonly verdict: Verdict
}

export function resultOf({ target, ours, floor }: Measure): Result {
  const mid = median(ours).mid
  const below = floor.length ? median(floor).mid : null
  const ratio = below === null || below === 0 ? null : mid / below
  const { excellent, good }: Target = TARGETS[target]
  const verdict = isMet(excellent, mid, below) ? 'excellent' : isMet(good, mid, below) ? 'good' : 'short'
  return { target, ours: mid, floor: below, ratio, verdict }
}

function isMet(bound: Bound, ours: number, floor: number | null): boolean {
  if (bound.ratio !== undefined && (floor === null || ours > bound.ratio * floor)) return false
  if (bound.more !== undefined && (floor === null || ours > bound.more + floor)) return false
  return ours <= (bound.atMost ?? Number.POSITIVE_INFINITY) && ours >= (bound.atLeast ?? 0)
}

function boundText({ ratio, more, atMost, atLeast }: Bound): string {
  if (more !== undefined) return `<= floor + ${more}`
  if (ratio !== undefined) return `<= ${ratio}x`
  return atMost !== undefined ? `<= ${atMost}` : `>= ${atLeast?.toLocaleString('en')}`
}

/** The newest measure of every target, in the order of the table. */
export function measuresOf(entries: readonly Entry[]): Measure[] {
  const newest = new Map(entries.flatMap(({ measures }) => measures).map((measure) => [measure.target, measure]))
  // Object.keys gives texts: these are the table's own.
  return (Object.keys(TARGETS) as TargetName[]).flatMap((name) => newest.get(name) ?? [])
}

/** The target table: ours, floor, ratio and verdict of every row that was measured. */
export function targetRows(entries: readonly Entry[]): Row[] {
  return measuresOf(entries).map((measure) => {
    const { scenario, unit, floor, excellent }: Target = TARGETS[measure.target]
    const { ratio, verdict } = resultOf(measure)
    return {
      Scenario: scenario,
      Unit: unit,
      Ours: median(measure.ours).text,
      Floor: measure.floor.length ? `${median(measure.floor).text} (${floor})` : '',
      Ratio: ratio === null ? '' : short(ratio),
      Excellent: boundText(excellent),
      Verdict: verdict === 'excellent' ? '**excellent**' : verdict
    }
  })
}
