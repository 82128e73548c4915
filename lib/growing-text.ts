// A text that grows in small pieces, as an answer does. Appending to a string a thousand times builds a tree of a thousand nodes until
// somebody reads it, and every garbage collection walks it: here a few pieces at a time are joined.

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
