// The counters of this process: what was delivered, and what went wrong with readers, since it began. Plain numbers, so that counting
// costs an addition on the live path; whoever is asked for metrics reads them. Gateways of one process share it.

/** How often a figure lay below each of some bounds. */
export class Buckets {
  readonly bounds: readonly number[]
  /** By bound; the last one is of what lay above all. */
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
  /** Frames that were handed to a reader's socket, each as often as it has readers. */
  frames: 0,
  /** What was handed to readers' sockets, heartbeats and catching up included. */
  bytes: 0,
  /** Readers that were told that frames are gone. */
  gaps: 0,
  /** Readers that were reset because they had taken nothing for too long. */
  stalled: 0,
  /** Seconds from the first frame that is due to the last socket that has it, of every delivery. */
  lag: new Buckets([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5])
}
