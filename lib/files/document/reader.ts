// The worker thread that reads one document and posts its text.
import { readFile } from 'node:fs/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { DocumentKind } from './kind.ts'
import { addSlides, addWord, addWorkbook } from './office.ts'
import { addPdf } from './pdf.ts'
import { DocumentText, TextFull } from './text.ts'

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
  (error: unknown) => ({ reason: error instanceof Error ? error.message : String(error) })
)
parentPort!.postMessage(answer)
