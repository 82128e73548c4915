// The text of a PDF, page by page. Pictures of text have none.
import { getDocumentProxy } from 'unpdf'
import type { DocumentText } from './text.ts'

/** @throws Error for what is no PDF, or wants a password; TextFull */
export async function addPdf(bytes: Buffer, text: DocumentText): Promise<void> {
  // Only errors are logged, and no code is made of what the file says.
  const pdf = await getDocumentProxy(new Uint8Array(bytes), { verbosity: 0, isEvalSupported: false })
  for (let n = 1; n <= pdf.numPages; n++) {
    const page = await pdf.getPage(n)
    const { items } = await page.getTextContent()
    // Items without a text are marks of the file's structure.
    const words = items.map((item) => ('str' in item ? `${item.str}${item.hasEOL ? '\n' : ''}` : '')).join('')
    if (words.trim() !== '') text.add(`## Page ${n}\n\n${words.trim()}`)
    page.cleanup()
  }
}
