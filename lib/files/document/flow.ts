// Converts the text of office documents to Markdown: paragraphs, headings, lists and tables. Text documents and slides use the same
// element names.
import { type DocumentText, tableRow, tableRule } from './text.ts'
import { attributeOf, readXml } from './xml.ts'

/** @throws TextFull */
export function addFlow(xml: string, text: DocumentText): void {
  const flow = new Flow(text)
  for (const piece of readXml(xml)) {
    if (piece.kind === 'open') flow.open(piece.name, piece.tag)
    else if (piece.kind === 'close') flow.close(piece.name)
    else flow.text(piece.text)
  }
}

class Flow {
  readonly #out: DocumentText
  /** The Markdown prefix of the paragraph, and its text so far. */
  #mark = ''
  #words = ''
  /** Inside an element that holds text. */
  #isText = false
  #properties = 0
  /** Inside `Fallback`, which repeats content for older programs. */
  #fallbacks = 0
  /** Depth: a table in a cell becomes part of the cell's text. */
  #tables = 0
  #rows = 0
  #cells: string[] = []
  #cell = ''

  constructor(out: DocumentText) {
    this.#out = out
  }

  text(text: string): void {
    if (this.#isText && this.#fallbacks === 0) this.#words += text
  }

  open(name: string, tag: string): void {
    if (name === 'Fallback') this.#fallbacks++
    else if (name === 't') this.#isText = true
    else if (name === 'pPr') this.#properties++
    else if (name === 'pStyle') this.#mark = headingMark(attributeOf(tag, 'w:val') ?? '') || this.#mark
    else if (name === 'numPr') this.#mark ||= '- '
    // In the properties it defines a tab stop.
    else if (name === 'tab' && this.#properties === 0) this.#words += '\t'
    else if (name === 'br' || name === 'cr') this.#words += '\n'
    else if (name === 'tbl') this.#openTable()
    else if (name === 'tr' && this.#tables === 1) this.#cells = []
    else if (name === 'tc' && this.#tables === 1) this.#cell = ''
  }

  close(name: string): void {
    if (name === 'Fallback') this.#fallbacks--
    else if (name === 't') this.#isText = false
    else if (name === 'pPr') this.#properties--
    else if (name === 'p') this.#closeParagraph()
    else if (name === 'tbl') this.#tables--
    else if (name === 'tc' && this.#tables === 1) this.#cells.push(this.#cell)
    else if (name === 'tr' && this.#tables === 1) this.#closeRow()
  }

  #openTable(): void {
    if (this.#tables++ === 0) this.#rows = 0
  }

  #closeParagraph(): void {
    const words = this.#words.trim()
    if (this.#tables > 0) this.#cell += `${words} `
    else if (words !== '') this.#out.add(`${this.#mark}${words}`, { close: this.#mark === '- ' })
    this.#words = ''
    this.#mark = ''
  }

  #closeRow(): void {
    this.#out.add(tableRow(this.#cells), { close: this.#rows > 0 })
    if (this.#rows++ === 0) this.#out.add(tableRule(this.#cells.length), { close: true })
  }
}

/** Heading styles have these names in every language; '' for all others. */
function headingMark(style: string): string {
  if (/^title$/i.test(style)) return '# '
  const level = /^heading ?([1-6])$/i.exec(style)?.[1]
  return level ? `${'#'.repeat(Number(level))} ` : ''
}
