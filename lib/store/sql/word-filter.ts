// Filters of blocks and shelves: which words they may have. Bloom filters, so they may say yes of a word that is not there, and never no of
// one that is. They have no words: what was deleted cannot be read from them.

/** Bits that each word sets. */
const BITS_SET = 4
/** Beginnings of words are in it up to this length, in characters. */
const PREFIX_MAX = 3

export class WordFilter {
  /** Digests of what is in it. */
  readonly #entries = new Set<number>()

  add(words: readonly string[]): void {
    for (const word of words) for (const digest of digestsOf(word)) this.#entries.add(digest)
  }

  /** `bitsEach`: with 8 it says of 2 of a hundred words that are not there that they may be, with 6 of 6. */
  bytes(bitsEach: 6 | 8): Uint8Array {
    const filter = new Uint8Array(Math.ceil((this.#entries.size * bitsEach) / 8) + 1)
    const bits = filter.length * 8
    for (const digest of this.#entries) {
      const step = stepOf(digest)
      for (let no = 0; no < BITS_SET; no++) {
        const bit = (digest + no * step) % bits
        filter[bit >> 3]! |= 1 << (bit & 7)
      }
    }
    return filter
  }
}

/** Places to look at in any filter, each modulo its bits: all are set where all of this may be. */
export function placesFor(words: readonly string[], prefix: string | null): number[] {
  const beginning = prefix === null ? [] : [[...prefix].slice(0, PREFIX_MAX).join('')]
  return [...words, ...beginning].flatMap((text) => {
    const digest = digestsOf(text).at(-1)!
    return Array.from({ length: BITS_SET }, (_, no) => digest + no * stepOf(digest))
  })
}

export function hasPlaces(filter: Uint8Array, places: readonly number[]): boolean {
  const bits = filter.length * 8
  return places.every((place) => {
    const bit = place % bits
    return ((filter[bit >> 3]! >> (bit & 7)) & 1) === 1
  })
}

/** Of the beginnings of a word, the shortest first, and of itself: FNV-1a over UTF-16 units, mixed. */
function digestsOf(word: string): number[] {
  const digests: number[] = []
  let [hash, length] = [0x811c9dc5, 0]
  for (let at = 0; at < word.length; at++) {
    const unit = word.charCodeAt(at)
    hash = Math.imul(hash ^ unit, 0x01000193)
    // Not after the first half of a character.
    const isEnd = unit < 0xd800 || unit > 0xdbff
    if (isEnd && length++ < PREFIX_MAX) digests.push(mixed(hash))
  }
  if (length > PREFIX_MAX) digests.push(mixed(hash))
  return digests
}

function mixed(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (once ^ (once >>> 13)) >>> 0
}

/** From one place of a digest to the next. */
function stepOf(digest: number): number {
  return (mixed(Math.imul(digest, 0x9e3779b1)) >>> 1) + 1
}
