// A document as Markdown, tables included, block by block up to a limit.
/** Maximum characters kept of a document; read_file shows no more of a file. */
const CHARS_MAX = 2 << 20
const CUT = '[The document is longer than this. The rest of its text was left out.]'

/** Thrown to stop reading at the limit. */
export class TextFull extends Error {}

export class DocumentText {
  readonly #blocks: string[] = []
  #chars = 0

  /**
   * Adds a block after an empty line, or directly after the last one with `close`. Blank blocks are left out.
   * @throws TextFull
   */
  add(block: string, { close = false } = {}): void {
    const clean = printable(block).trimEnd()
    if (clean === '') return
    const parted = this.#blocks.length === 0 ? clean : `${close ? '\n' : '\n\n'}${clean}`
    const left = CHARS_MAX - this.#chars
    this.#blocks.push(parted.length > left ? `${parted.slice(0, left)}\n\n${CUT}` : parted)
    this.#chars += parted.length
    if (this.#chars > CHARS_MAX) throw new TextFull()
  }

  /** Markdown; '' when nothing was added. */
  toString(): string {
    return this.#blocks.length === 0 ? '' : `${this.#blocks.join('').toWellFormed()}\n`
  }
}

// Files with a NUL are taken for binary.
function printable(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/(?![\n\t])\p{Cc}/gu, '')
}

/** A line of a Markdown table. */
export function tableRow(cells: readonly string[]): string {
  const escaped = cells.map((cell) => cell.trim().replace(/\s+/g, ' ').replaceAll('|', '\\|'))
  return `| ${escaped.join(' | ')} |`
}

/** The line below the head of a Markdown table. */
export function tableRule(columns: number): string {
  return `|${' --- |'.repeat(columns)}`
}
