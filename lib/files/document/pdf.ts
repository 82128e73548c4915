// The text of a PDF, page by page. Scanned pages have none.
import { getDocumentProxy } from 'unpdf'
import type { DocumentText } from './text.ts'

/** @throws Error if it is not a PDF or needs a password; TextFull */
export async function addPdf(bytes: Buffer, text: DocumentText): Promise<void> {
  // Log only errors, and never evaluate code from the file.
  const pdf = await getDocumentProxy(new Uint8Array(bytes), { verbosity: 0, isEvalSupported: false })
  for (let n = 1; n <= pdf.numPages; n++) {
    const page = await pdf.getPage(n)
    const { items } = await page.getTextContent()
    // Items without a text mark the structure of the file.
    const words = items.map((item) => ('str' in item ? `${item.str}${item.hasEOL ? '\n' : ''}` : '')).join('')
    if (words.trim() !== '') text.add(`## Page ${n}\n\n${words.trim()}`)
    page.cleanup()
  }
}
