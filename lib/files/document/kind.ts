// The kinds of documents whose text can be read, by the ending of their name [contract 6.1].
import { extname } from 'node:path'

export type DocumentKind = 'pdf' | 'docx' | 'pptx' | 'xlsx'

const READABLE: ReadonlyMap<string, DocumentKind> = new Map([
  ['.pdf', 'pdf'],
  ['.docx', 'docx'],
  ['.pptx', 'pptx'],
  ['.xlsx', 'xlsx']
])
/** Their formats have no reader, and still a companion of theirs goes with them. */
const OLD: ReadonlySet<string> = new Set(['.doc', '.ppt', '.xls'])

/** @returns null for what is no document, or one of the old formats */
export function documentKind(name: string): DocumentKind | null {
  return READABLE.get(extname(name).toLowerCase()) ?? null
}

/** True for the names beside which a Markdown file may stand that is part of them. */
export function isDocument(name: string): boolean {
  return documentKind(name) !== null || OLD.has(extname(name).toLowerCase())
}
