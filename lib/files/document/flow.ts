// Running text of an office document: paragraphs, headings, lists and tables, as Markdown. Word processors and slides use the same
// names for them.
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
  /** Of the paragraph: what stands before it, and its words so far. */
  #mark = ''
  #words = ''
  /** Inside the element that holds words; between elements there are none. */
  #isText = false
  #properties = 0
  /** Inside the form of something that was said already, for older programs. */
  #fallbacks = 0
  /** A table in a cell is part of the cell's text. */
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
    // In the properties it is where a tab would lead to.
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

/** The styles that headings have in every language of the program but its own; '' for all others. */
function headingMark(style: string): string {
  if (/^title$/i.test(style)) return '# '
  const level = /^heading ?([1-6])$/i.exec(style)?.[1]
  return level ? `${'#'.repeat(Number(level))} ` : ''
}
