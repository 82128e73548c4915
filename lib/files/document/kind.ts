// Document types whose text can be extracted, by file extension [contract 6.1].
import { extname } from 'node:path'

export type DocumentKind = 'pdf' | 'docx' | 'pptx' | 'xlsx'

const READABLE: ReadonlyMap<string, DocumentKind> = new Map([
  ['.pdf', 'pdf'],
  ['.docx', 'docx'],
  ['.pptx', 'pptx'],
  ['.xlsx', 'xlsx']
])
/** No reader for these, but a Markdown copy is deleted with them. */
const OLD: ReadonlySet<string> = new Set(['.doc', '.ppt', '.xls'])

/** @returns null: not a document, or an old format */
export function documentKind(name: string): DocumentKind | null {
  return READABLE.get(extname(name).toLowerCase()) ?? null
}

/** Whether a file with this name may have a Markdown copy. */
export function isDocument(name: string): boolean {
  return documentKind(name) !== null || OLD.has(extname(name).toLowerCase())
}
