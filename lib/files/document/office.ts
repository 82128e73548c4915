// Office documents, which are zip archives of XML. Only the needed members are unpacked, within limits.
import { type ArchiveLimits, readMembers } from '../archive.ts'
import { addFlow } from './flow.ts'
import { addSheet, dateStyles, sharedStrings } from './sheet.ts'
import type { DocumentText } from './text.ts'
import { attributeOf, readXml } from './xml.ts'

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
