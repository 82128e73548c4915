// Collects a document's text block by block, up to a limit.

/** Characters that are kept of a document: read_file shows no more of a file, and a document may claim any number. */
const CHARS_MAX = 2 << 20
const CUT = '[The document is longer than this. The rest of its text was left out.]'

/** Thrown to stop reading at the limit. */
export class TextFull extends Error {}

export class DocumentText {
  readonly #blocks: string[] = []
  readonly #charsMax: number
  #chars = 0

  constructor(charsMax = CHARS_MAX) {
    this.#charsMax = charsMax
  }

  /**
   * Adds a block, with an empty line before it; `close` puts it right below the last one. Nothing for a block that is blank.
   * @throws TextFull
   */
  add(block: string, { close = false } = {}): void {
    const clean = printable(block).trimEnd()
    if (clean === '') return
    const parted = this.#blocks.length === 0 ? clean : `${close ? '\n' : '\n\n'}${clean}`
    const left = this.#charsMax - this.#chars
    this.#blocks.push(parted.length > left ? `${parted.slice(0, left)}\n\n${CUT}` : parted)
    this.#chars += parted.length
    if (this.#chars > this.#charsMax) throw new TextFull()
  }

  /** Markdown; '' when nothing was added. */
  toString(): string {
    return this.#blocks.length === 0 ? '' : `${this.#blocks.join('').toWellFormed()}\n`
  }
}

// A NUL would make a file of it that is taken for none of text.
function printable(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/(?![\n\t])\p{Cc}/gu, '')
}

/** A line of a Markdown table. */
export function tableRow(cells: readonly string[]): string {
  const escaped = cells.map((cell) => cell.trim().replace(/\s+/g, ' ').replaceAll('|', '\\|'))
  return `| ${escaped.join(' | ')} |`
}

/** What makes a table of the rows below it. */
export function tableRule(columns: number): string {
  return `|${' --- |'.repeat(columns)}`
}
