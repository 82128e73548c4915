// Blocks of the index of words: some texts of one thread, one after the other, as the words of each, packed.
//
// A text is a line: how far its seq and its time are from those of the line before, and its words. Pairs of characters of which each begins
// with the last of the one before, as a script without spaces is cut, are written as one run, and not twice.
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { timestamp } from '../../base/types.ts'
import type { TextWords, WordQuery } from '../ports/search.ts'
import { WordFilter } from './word-filter.ts'

/** Begins a run of pairs: no letter, mark, digit or picture. */
const RUN = '~'
const RADIX = 36
/** Bytes of a block before it is packed: from here on packing gains little, and whoever looks for a word unpacks more. */
const BLOCK_BYTES = 8192

/** A text as a block has it: its time as a number, since most are read for their words alone. */
export interface BlockText {
  readonly seq: number
  /** Since 1970. */
  readonly ms: number
  readonly words: readonly string[]
}

export function toBlockText({ seq, at, words }: TextWords): BlockText {
  return { seq, ms: Date.parse(at), words }
}

/** A block as it is stored. */
export interface PackedBlock {
  /** The greatest seq, and the newest time. */
  readonly last: number
  readonly at: string
  readonly hasTitle: boolean
  /** Bytes before it was packed. */
  readonly size: number
  readonly words: Uint8Array
  readonly filter: Uint8Array
}

export function packed(texts: readonly BlockText[]): PackedBlock {
  let [seq, ms] = [0, 0]
  const lines = texts.map((text) => {
    const line = `${(text.seq - seq).toString(RADIX)} ${(text.ms - ms).toString(RADIX)} ${joined(text.words)}`
    ;[seq, ms] = [text.seq, text.ms]
    return line
  })
  const bytes = Buffer.from(lines.join('\n'))
  const filter = new WordFilter()
  for (const text of texts) filter.add(text.words)
  return {
    last: Math.max(...texts.map((text) => text.seq)),
    at: timestamp(Math.max(...texts.map((text) => text.ms))),
    hasTitle: texts.some((text) => text.seq === 0),
    size: bytes.length,
    words: deflateRawSync(bytes),
    filter: filter.bytes(6)
  }
}

export function unpacked(words: Uint8Array): BlockText[] {
  return textsIn(words, () => true)
}

/** The title's words in a block that has it. */
export function titleIn(words: Uint8Array): readonly string[] {
  return textsIn(words, (_line, seq) => seq === 0)[0]?.words ?? []
}

/** The texts that are wanted by their line, or by their seq. */
function textsIn(words: Uint8Array, isWanted: (line: string, seq: number) => boolean): BlockText[] {
  const texts: BlockText[] = []
  let [seq, ms] = [0, 0]
  for (const line of inflateRawSync(words).toString().split('\n')) {
    const second = line.indexOf(' ') + 1
    seq += Number.parseInt(line, RADIX)
    ms += Number.parseInt(line.slice(second), RADIX)
    if (!isWanted(line, seq)) continue
    const [, , ...pieces] = line.split(' ')
    texts.push({ seq, ms, words: parted(pieces) })
  }
  return texts
}

/** Texts as the lists of those that fit into a block: a text is in one, however long it is. */
export function inBlocks(texts: readonly BlockText[]): BlockText[][] {
  const blocks: BlockText[][] = []
  let room = 0
  for (const text of texts) {
    const size = sizeOf([text])
    if (size > room) {
      blocks.push([])
      room = BLOCK_BYTES
    }
    blocks.at(-1)!.push(text)
    room -= size
  }
  return blocks
}

/** About what a block of them has before it is packed. */
export function sizeOf(texts: readonly BlockText[]): number {
  return texts.reduce((sum, { words }) => sum + LINE_BYTES + Buffer.byteLength(joined(words)), 0)
}
const LINE_BYTES = 8

/** Whether texts take in the block before them: only one that is not much longer, so that a text is packed again a few times at most. */
export function takesIn(size: number, before: number): boolean {
  return before <= 3 * size && before + size <= BLOCK_BYTES
}

/** The words as pieces with spaces between them. */
function joined(words: readonly string[]): string {
  let text = ''
  // The last character of the pair that was written last, if it was one.
  let end = ''
  for (const word of words) {
    const [first = '', second = '', third] = word
    const isPair = second !== '' && third === undefined
    if (isPair && first === end) text += second
    else text += `${text === '' ? '' : ' '}${isPair ? RUN : ''}${word}`
    end = isPair ? second : ''
  }
  return text
}

function parted(pieces: readonly string[]): string[] {
  const words: string[] = []
  for (const piece of pieces) {
    if (!piece.startsWith(RUN)) {
      if (piece !== '') words.push(piece)
      continue
    }
    let before = ''
    for (const char of piece.slice(RUN.length)) {
      if (before !== '') words.push(before + char)
      before = char
    }
  }
  return words
}

/** What is looked for in a line, so that most need not be taken apart: it is written so, if it is there. */
function tracesOf({ words, prefix }: Pick<WordQuery, 'words' | 'prefix'>): string[] {
  // A pair may stand within a run.
  const traceOf = (text: string) => ([...text].length <= 2 ? text : ` ${text}`)
  return [...words, ...(prefix === null ? [] : [prefix])].map(traceOf)
}

/** Texts of a block that have all words, and one that begins with the prefix. */
export function matching(words: Uint8Array, query: Pick<WordQuery, 'words' | 'prefix'>): TextWords[] {
  const traces = tracesOf(query)
  return textsIn(words, (line) => traces.every((trace) => line.includes(trace)))
    .filter((text) => hasAll(text.words, query))
    .map(({ ms, ...text }) => ({ ...text, at: timestamp(ms) }))
}

function hasAll(words: readonly string[], { words: wanted, prefix }: Pick<WordQuery, 'words' | 'prefix'>): boolean {
  if (!wanted.every((word) => words.includes(word))) return false
  return prefix === null || words.some((word) => word.startsWith(prefix))
}
