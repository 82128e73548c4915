// Office documents, which are zip archives of XML. Only the needed members are unpacked, within limits.
import { type ArchiveLimits, readMembers } from '../archive.ts'
import { type DocumentText, tableRow, tableRule } from './text.ts'
import { attributeOf, readXml } from './xml.ts'

// ----------------------------------------------------------------------------------------------------
// Converts the text of office documents to Markdown: paragraphs, headings, lists and tables. Text documents and slides use the same
// element names.

/** @throws TextFull */
function addFlow(xml: string, text: DocumentText): void {
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

// ----------------------------------------------------------------------------------------------------
// Converts a sheet of a workbook to a Markdown table. Cells refer to shared strings, and to styles, which are the only way to tell dates
// from numbers.

/** What all sheets of a workbook share. */
interface Workbook {
  readonly strings: readonly string[]
  /** Numbers of the styles that show a date. */
  readonly dateStyles: ReadonlySet<number>
  /** Dates count from 1904, not from 1900. */
  readonly is1904: boolean
}

interface Cell {
  /** From 0. */
  readonly column: number
  readonly type: string
  readonly style: number
  value: string
}

const COLUMNS_MAX = 16_384

/** @throws TextFull */
function addSheet(xml: string, book: Workbook, text: DocumentText): void {
  let cells: string[] = []
  let cell: Cell | null = null
  let isValue = false
  let rows = 0
  for (const piece of readXml(xml)) {
    if (piece.kind === 'text') {
      if (cell && isValue) cell.value += piece.text
    } else if (piece.kind === 'open') {
      if (piece.name === 'row') cells = []
      else if (piece.name === 'c') cell = openCell(piece.tag, cells.length)
      else if (piece.name === 'v' || piece.name === 't') isValue = true
    } else if (piece.name === 'v' || piece.name === 't') isValue = false
    else if (piece.name === 'c' && cell) {
      while (cells.length < cell.column) cells.push('')
      cells[cell.column] = shown(cell, book)
      cell = null
    } else if (piece.name === 'row' && cells.some((one) => one !== '')) {
      text.add(tableRow(cells), { close: rows > 0 })
      if (rows++ === 0) text.add(tableRule(cells.length), { close: true })
    }
  }
}

function openCell(tag: string, next: number): Cell {
  return {
    column: columnOf(attributeOf(tag, 'r')) ?? next,
    type: attributeOf(tag, 't') ?? 'n',
    style: Number(attributeOf(tag, 's') ?? 0),
    value: ''
  }
}

/** `C7` is column 2; null: no such place. */
function columnOf(place: string | null): number | null {
  const letters = /^[A-Z]{1,3}(?=\d)/.exec(place ?? '')?.[0]
  if (!letters) return null
  let column = 0
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64
  return column <= COLUMNS_MAX ? column - 1 : null
}

function shown({ type, style, value }: Cell, { strings, dateStyles, is1904 }: Workbook): string {
  if (type === 's') return strings[Number(value)] ?? ''
  if (type === 'b') return value === '1' ? 'TRUE' : 'FALSE'
  return type === 'n' && value !== '' && dateStyles.has(style) ? dateOf(Number(value), is1904) : value
}

const DAY_MS = 86_400_000
/** Days from the epoch of the workbook to 1970. */
const DAYS_1900 = 25_569
const DAYS_1904 = 24_107

/** `2024-01-31`, with the time if there is one; the number if it is not a valid date. */
function dateOf(days: number, is1904: boolean): string {
  const date = new Date(Math.round((days - (is1904 ? DAYS_1904 : DAYS_1900)) * DAY_MS))
  if (Number.isNaN(date.getTime())) return String(days)
  const text = date.toISOString()
  if (days < 1) return text.slice(11, 19)
  return Number.isInteger(days) ? text.slice(0, 10) : `${text.slice(0, 10)} ${text.slice(11, 19)}`
}

/** The texts that cells refer to by number, without phonetic hints. */
function sharedStrings(xml: string): string[] {
  const strings: string[] = []
  let words = ''
  let isText = false
  let phonetics = 0
  for (const piece of readXml(xml)) {
    if (piece.kind === 'text') {
      if (isText && phonetics === 0) words += piece.text
    } else if (piece.name === 't') isText = piece.kind === 'open'
    else if (piece.name === 'rPh') phonetics += piece.kind === 'open' ? 1 : -1
    else if (piece.name === 'si' && piece.kind === 'open') words = ''
    else if (piece.name === 'si') strings.push(words)
  }
  return strings
}

/** Built-in number formats of dates and times. */
const isKnownDate = (format: number): boolean => (format >= 14 && format <= 22) || (format >= 45 && format <= 47)

/** The numbers of the styles that show a date. */
function dateStyles(xml: string): Set<number> {
  const formats = new Set<number>()
  const styles = new Set<number>()
  let isInCells = false
  let style = 0
  for (const piece of readXml(xml)) {
    if (piece.kind === 'text') continue
    if (piece.name === 'cellXfs') isInCells = piece.kind === 'open'
    if (piece.kind === 'close') continue
    const format = Number(attributeOf(piece.tag, 'numFmtId'))
    if (piece.name === 'numFmt' && isDateCode(attributeOf(piece.tag, 'formatCode') ?? '')) formats.add(format)
    if (piece.name !== 'xf' || !isInCells) continue
    if (isKnownDate(format) || formats.has(format)) styles.add(style)
    style++
  }
  return styles
}

/** A format that contains days, months, years or hours, outside of quotes and colour names. */
function isDateCode(code: string): boolean {
  return /[dmyh]/i.test(code.replace(/"[^"]*"|\[[^\]]*\]|\\./g, ''))
}

/** Pictures and fonts do not count, because they are not unpacked. */
const LIMITS: ArchiveLimits = { members: 20_000, memberBytes: 64 << 20, totalBytes: 128 << 20 }

/** @throws ArchiveError, TextFull */
export async function addWord(path: string, text: DocumentText): Promise<void> {
  const part = await partsOf(path, /^word\/document\.xml$/)
  addFlow(part('word/document.xml'), text)
}

/** Slides in the order of the presentation. @throws ArchiveError, TextFull */
export async function addSlides(path: string, text: DocumentText): Promise<void> {
  const part = await partsOf(path, /^ppt\/(presentation\.xml|_rels\/presentation\.xml\.rels|slides\/[^/]+\.xml)$/)
  const targets = targetsOf(part('ppt/_rels/presentation.xml.rels'), 'ppt')
  for (const [at, { id }] of listed(part('ppt/presentation.xml'), 'sldId').entries()) {
    text.add(`## Slide ${at + 1}`)
    addFlow(part(targets.get(id) ?? ''), text)
  }
}

/** Sheets in their order, each under its name. @throws ArchiveError, TextFull */
export async function addWorkbook(path: string, text: DocumentText): Promise<void> {
  const part = await partsOf(
    path,
    /^xl\/(workbook\.xml|_rels\/workbook\.xml\.rels|sharedStrings\.xml|styles\.xml|worksheets\/[^/]+\.xml)$/
  )
  const xml = part('xl/workbook.xml')
  const targets = targetsOf(part('xl/_rels/workbook.xml.rels'), 'xl')
  const book = {
    strings: sharedStrings(part('xl/sharedStrings.xml')),
    dateStyles: dateStyles(part('xl/styles.xml')),
    is1904: /\sdate1904\s*=\s*["'](1|true)["']/.test(xml)
  }
  for (const { id, name } of listed(xml, 'sheet')) {
    text.add(`## ${name}`)
    addSheet(part(targets.get(id) ?? ''), book, text)
  }
}

/** The wanted members as texts; '' if missing. */
async function partsOf(path: string, wanted: RegExp): Promise<(name: string) => string> {
  const members = await readMembers(path, (name) => wanted.test(name), LIMITS)
  return (name) => {
    const bytes = members.get(name)
    return bytes ? decoded(bytes) : ''
  }
}

/** UTF-8, or UTF-16 with a byte order mark. */
function decoded(bytes: Buffer): string {
  const mark = bytes.toString('latin1', 0, 2)
  if (mark === '\xff\xfe') return new TextDecoder('utf-16le').decode(bytes)
  return new TextDecoder(mark === '\xfe\xff' ? 'utf-16be' : 'utf-8').decode(bytes)
}

interface Listed {
  /** For `targetsOf`. */
  readonly id: string
  readonly name: string
}

/** The slides or sheets that the main part lists, in order. */
function listed(xml: string, element: string): Listed[] {
  const found: Listed[] = []
  for (const piece of readXml(xml)) {
    if (piece.kind !== 'open' || piece.name !== element) continue
    found.push({ id: attributeOf(piece.tag, 'r:id') ?? '', name: attributeOf(piece.tag, 'name') ?? '' })
  }
  return found
}

/** Members by relationship id. Targets are relative to the folder, or absolute in the archive. */
function targetsOf(xml: string, folder: string): Map<string, string> {
  const targets = new Map<string, string>()
  for (const piece of readXml(xml)) {
    if (piece.kind !== 'open' || piece.name !== 'Relationship') continue
    const target = attributeOf(piece.tag, 'Target') ?? ''
    targets.set(attributeOf(piece.tag, 'Id') ?? '', target.startsWith('/') ? target.slice(1) : `${folder}/${target}`)
  }
  return targets
}
