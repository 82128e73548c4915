// Counters of this process: deliveries, and what went wrong with readers. Plain numbers, so that counting costs one
// addition on the live path; /metrics reads them. Gateways of one process share them.

/** A histogram: how often a value fell below each bound. */
export class Buckets {
  readonly bounds: readonly number[]
  /** One count per bound, and a last one for everything above. */
  readonly counts: number[]
  sum = 0

  /** @param bounds ascending */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = [...bounds, 0].map(() => 0)
  }

  add(figure: number): void {
    let at = 0
    while (at < this.bounds.length && figure > this.bounds[at]!) at++
    this.counts[at]!++
    this.sum += figure
  }
}

export const counters = {
  /** Frames handed to readers' sockets, once per reader. */
  frames: 0,
  /** Bytes handed to readers' sockets, heartbeats and catching up included. */
  bytes: 0,
  /** Readers that were told of a gap. */
  gaps: 0,
  /** Readers that were reset because they stalled. */
  stalled: 0,
  /** Per delivery: seconds from the first due frame to the last socket written. */
  lag: new Buckets([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5])
}
