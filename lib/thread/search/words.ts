// Texts as words, the one way in which texts and searches are cut: NFKC, lower case, without marks, and pairs of characters where a
// script has no spaces between words. So every store finds the same.

/** Longer words are cut: no index takes any length. In UTF-16 units. */
const WORD_MAX = 64
/** Characters of a text whose words are found: some thirty pages. */
const TEXT_MAX = 100_000
/** Different words of a text that are found. */
const WORDS_MAX = 20_000

/**
 * A run of letters, digits, marks and pictures: emoji, and the two letters that a flag is. Pictures that fold into letters stand by
 * themselves: `Word™` is not the word `wordtm`, which nobody looks for.
 */
const RUN = /[™ℹⓂ]|(?:(?![™ℹⓂ])[\p{L}\p{N}\p{M}\p{Extended_Pictographic}\p{Regional_Indicator}])+/gu
/** Scripts that are written without spaces, or in which words are seldom looked for as they stand; and pictures. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー\p{Extended_Pictographic}\p{Regional_Indicator}]/u
const PIECES = new RegExp(`${UNSPACED.source}+|(?:(?!${UNSPACED.source})[\\s\\S])+`, 'gu')
/** Marks above and below letters; the two that make other kana of kana belong to them. */
const MARKS = /(?![\u3099\u309a])\p{Mn}/gu

/** A word, and where it stands in the text. */
interface Word {
  readonly word: string
  readonly from: number
  readonly to: number
  /** The last character of a run without spaces: a search for the run does not need it, one for the character does. */
  readonly isTail?: true
}

/** The same for two spellings of a word. */
function folded(run: string): string {
  return run.normalize('NFKC').toLowerCase().normalize('NFD').replace(MARKS, '').normalize('NFC')
}

function* wordsIn(text: string): Generator<Word> {
  for (const { 0: run, index } of text.slice(0, TEXT_MAX).matchAll(RUN)) {
    const form = folded(run)
    // Where folding has moved its characters, a word stands at the whole run.
    const isInPlace = form.length === run.length
    for (const { 0: piece, index: at } of form.matchAll(PIECES)) {
      const place = (from: number, to: number) =>
        isInPlace ? { from: index + at + from, to: index + at + to } : { from: index, to: index + run.length }
      if (UNSPACED.test(piece)) yield* pairsIn(piece, place)
      // What folding leaves besides, such as the slash of a fraction, is no word.
      else
        for (const { 0: word, index: within } of piece.matchAll(RUN))
          yield { word: word.slice(0, WORD_MAX), ...place(within, within + word.length) }
    }
  }
}

function* pairsIn(piece: string, place: (from: number, to: number) => { from: number; to: number }): Generator<Word> {
  const chars = [...piece]
  let from = 0
  for (const [at, char] of chars.entries()) {
    const next = chars[at + 1]
    const to = from + char.length + (next?.length ?? 0)
    yield { word: char + (next ?? ''), ...place(from, to), ...(next === undefined && at > 0 && { isTail: true }) }
    from += char.length
  }
}

/** The different words of a text, for the index. */
export function wordsOf(text: string): string[] {
  const words = new Set<string>()
  for (const { word } of wordsIn(text)) {
    words.add(word)
    if (words.size === WORDS_MAX) break
  }
  return [...words]
}

export interface Query {
  readonly words: readonly string[]
  readonly prefix: string | null
}

/** Words of a search that are looked for. */
const QUERY_WORDS_MAX = 32

/** What a search asks for: all words, of the last its beginning. null: no word is in it. */
export function queryOf(text: string): Query | null {
  const found = [...wordsIn(text)].filter(({ isTail }) => !isTail).slice(0, QUERY_WORDS_MAX)
  const last = found.at(-1)
  if (!last) return null
  const words = new Set(found.slice(0, -1).map(({ word }) => word))
  return { words: [...words], prefix: last.word }
}

/** A piece of a snippet; `hit`: it is what was looked for. */
interface SnippetPart {
  readonly text: string
  readonly hit: boolean
}

/** Characters before the first hit, and of the whole. */
const BEFORE = 40
const SNIPPET = 200
/** The same of what is read without its marks, in which there are more of them. More of a text is not: the patterns below are slow on it. */
const READ_BEFORE = 400
const READ = 1600

/**
 * Marks of Markdown, which people do not read: of headings, lists, quotes, fences and rules at the beginning of a line, the bars of a table,
 * what a link leads to, and the stars and ticks around words.
 */
const MARKDOWN: readonly (readonly [RegExp, string])[] = [
  [/^[ \t]*(?:(?:`{3,}|~{3,}).*|[-*_|: \t]{3,})$/gm, ''],
  [/^[ \t]*(?:#{1,6}|[-*+]|\d{1,9}[.)]|>)[ \t]+(?:\[[ xX]\][ \t]+)?/gm, ''],
  [/!?\[([^\]\n]*)\](?:\([^)\s]*(?:[ \t]+"[^"\n]*")?\)|\[[^\]\n]*\])/g, '$1'],
  [/(\*\*\*|\*\*|\*|~~|`+)(?=\S)([^\n]*?\S)\1/g, '$2'],
  [/(?<![\p{L}\p{N}_])(__|_)(?=\S)([^\n]*?\S)\1(?![\p{L}\p{N}_])/gu, '$2'],
  [/^[ \t]*\||[ \t]*\|[ \t]*$/gm, ''],
  [/\s+/g, ' ']
]

/** The text as it reads. What was found in a mark alone, as the address of a link, is shown as it was written. */
function readable(text: string): string {
  return MARKDOWN.reduce((plain, [mark, left]) => plain.replace(mark, left), text).trim()
}

/** The part of a text around the first word that was looked for, without the marks of Markdown. */
export function snippetOf(written: string, query: Query): SnippetPart[] {
  const hits = firstHits(written, query)
  const [from, to] = readAround(written, hits[0]?.from ?? 0)
  const text = readable(written.slice(from, to))
  const plain = partsAround(text, firstHits(text, query), { isBegun: from > 0, isCut: to < written.length })
  return plain.some(({ hit }) => hit) ? plain : partsAround(written, hits)
}

/** What is read around a place: from the beginning of a line, if one is near. */
function readAround(text: string, at: number): [from: number, to: number] {
  if (text.length <= READ) return [0, text.length]
  const near = Math.max(0, at - READ_BEFORE)
  const line = near === 0 ? 0 : text.slice(near, at).indexOf('\n') + 1
  const from = edge(text, near + line)
  return [from, edge(text, Math.min(text.length, from + READ))]
}

/** The words that were looked for, as far as a snippet from the first of them reaches. */
function firstHits(text: string, { words, prefix }: Query): readonly Word[] {
  const wanted = new Set(words)
  const isHit = ({ word, isTail }: Word) =>
    !isTail && (wanted.has(word) || (prefix !== null && word.startsWith(prefix)))
  const hits: Word[] = []
  for (const word of wordsIn(text)) {
    if (hits[0] && word.from > hits[0].from + SNIPPET) break
    if (isHit(word)) hits.push(word)
  }
  return hits
}

/** `isBegun`, `isCut`: there is more before the text, or behind it. */
function partsAround(text: string, hits: readonly Word[], { isBegun = false, isCut = false } = {}): SnippetPart[] {
  const first = hits[0]?.from ?? 0
  const start = edge(text, first <= BEFORE ? 0 : first - BEFORE)
  const end = edge(text, Math.min(text.length, start + SNIPPET))
  const parts: SnippetPart[] = []
  const add = (piece: string, hit: boolean) => {
    const before = parts.at(-1)
    if (before?.hit === hit) parts[parts.length - 1] = { text: before.text + piece, hit }
    else if (piece !== '') parts.push({ text: piece, hit })
  }
  let at = start
  if (isBegun || start > 0) add('…', false)
  for (const { from, to } of hits) {
    if (from >= end) break
    if (to <= at) continue
    add(text.slice(at, Math.max(at, from)), false)
    add(text.slice(Math.max(at, from), Math.min(to, end)), true)
    at = Math.min(to, end)
  }
  add(text.slice(at, end) + (isCut || end < text.length ? '…' : ''), false)
  return parts
}

/** Not within a character of two units. */
function edge(text: string, at: number): number {
  return /^[\udc00-\udfff]/.test(text.slice(at, at + 1)) ? at - 1 : at
}
