// Converts a sheet of a workbook to a Markdown table. Cells refer to shared strings, and to styles, which are the only way to
// tell dates from numbers.
import { type DocumentText, tableRow, tableRule } from './text.ts'
import { attributeOf, readXml } from './xml.ts'

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
export function addSheet(xml: string, book: Workbook, text: DocumentText): void {
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
export function sharedStrings(xml: string): string[] {
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
export function dateStyles(xml: string): Set<number> {
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
