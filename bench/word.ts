// The word to begin: who waits hears the next one that is given.
export class Word {
  #tell: () => void = () => {}
  #next = this.#another()

  get next(): Promise<void> {
    return this.#next
  }

  give(): void {
    const tell = this.#tell
    this.#next = this.#another()
    tell()
  }

  #another(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve
    })
  }
}
