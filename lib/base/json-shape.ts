// The shape of JSON that a stranger sends: how many values and levels it has, counted while its bytes arrive and before any of it is made.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKETS_OPEN: ReadonlySet<number> = new Set([0x5b, 0x7b])
const BRACKETS_CLOSE: ReadonlySet<number> = new Set([0x5d, 0x7d])

/** Counts with a scan that neither recurses nor allocates. */
export class JsonShape {
  values = 1
  /** Levels of its deepest value. */
  levels = 0
  #depth = 0
  #isInText = false
  #isEscaped = false

  /** The next bytes, cut wherever they were. */
  feed(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#isInText) at = this.#readText(bytes, at)
      else this.#count(bytes[at++]!)
    }
  }

  #count(byte: number): void {
    if (byte === QUOTE) this.#isInText = true
    else if (byte === COMMA) this.values++
    else if (BRACKETS_OPEN.has(byte)) {
      this.values++
      this.levels = Math.max(this.levels, ++this.#depth)
    } else if (BRACKETS_CLOSE.has(byte)) this.#depth--
  }

  // Long strings are most of a large body: let indexOf skip them.
  #readText(bytes: Uint8Array, at: number): number {
    const from = this.#isEscaped ? at + 1 : at
    this.#isEscaped = false
    for (let end = bytes.indexOf(QUOTE, from); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
      if (isEscapedAt(bytes, from, end)) continue
      this.#isInText = false
      return end + 1
    }
    this.#isEscaped = isEscapedAt(bytes, from, bytes.length)
    return bytes.length
  }
}

/** Whether an odd number of backslashes stands before it. */
function isEscapedAt(bytes: Uint8Array, from: number, end: number): boolean {
  let before = end - 1
  while (before >= from && bytes[before] === BACKSLASH) before--
  return (end - 1 - before) % 2 === 1
}
