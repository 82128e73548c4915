// Who waits until what a run has recorded is stored: each for the commit under way, if there is one, and the next.
export class CommitWaits {
  readonly #waiting: { commits: number; readonly resolve: () => void }[] = []

  /** Resolves after so many commits. */
  after(commits: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ commits, resolve }))
  }

  /** Records of the run were stored. */
  committed(): void {
    for (const waiting of this.#waiting.splice(0)) {
      waiting.commits--
      if (waiting.commits === 0) waiting.resolve()
      else this.#waiting.push(waiting)
    }
  }

  /** Everything is stored, or will never be. */
  end(): void {
    for (const { resolve } of this.#waiting.splice(0)) resolve()
  }
}
