// A text that grows by small pieces, as an answer does. A string that is added to a thousand times is a tree of a thousand nodes
// until somebody reads it, and whoever collects garbage walks through all of it, again and again: here a few pieces at a time become
// one.

const PIECES = 16

export class GrowingText {
  #text = ''
  #pieces: string[] = []

  add(piece: string): void {
    if (piece === '') return
    this.#pieces.push(piece)
    if (this.#pieces.length === PIECES) this.#join()
  }

  get isEmpty(): boolean {
    return this.#text === '' && this.#pieces.length === 0
  }

  toString(): string {
    if (this.#pieces.length > 0) this.#join()
    return this.#text
  }

  #join(): void {
    this.#text += this.#pieces.join('')
    this.#pieces.length = 0
  }
}
