// A text that grows in small pieces, like an answer. Appending to a string a thousand times builds a tree of a thousand nodes, which every
// garbage collection walks until somebody reads the string: here pieces are joined sixteen at a time.

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
