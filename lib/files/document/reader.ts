// The worker thread that reads one document and posts its text.
import { readFile } from 'node:fs/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '../../base/errors.ts'
import { DocumentText, TextFull } from './text.ts'
import type { DocumentKind } from '../documents.ts'
import { addSlides, addWord, addWorkbook } from './office.ts'
import { getDocumentProxy } from 'unpdf'

export type ReaderAnswer = { readonly text: string } | { readonly reason: string }

async function textOf(path: string, kind: DocumentKind): Promise<string> {
  const text = new DocumentText()
  try {
    await add(path, kind, text)
  } catch (error) {
    if (!(error instanceof TextFull)) throw error
  }
  return text.toString()
}

async function add(path: string, kind: DocumentKind, text: DocumentText): Promise<void> {
  switch (kind) {
    case 'pdf':
      return addPdf(await readFile(path), text)
    case 'docx':
      return addWord(path, text)
    case 'pptx':
      return addSlides(path, text)
    case 'xlsx':
      return addWorkbook(path, text)
  }
}

const { path, kind } = workerData as { path: string; kind: DocumentKind } // guard.ts gives it nothing else
const answer: ReaderAnswer = await textOf(path, kind).then(
  (text) => ({ text }),
  (error: unknown) => ({ reason: messageOf(error) })
)
parentPort!.postMessage(answer)

/** @throws Error if it is not a PDF or needs a password; TextFull */
async function addPdf(bytes: Buffer, text: DocumentText): Promise<void> {
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
