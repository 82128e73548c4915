// The Markdown copy of a document's text, next to it: `report.md` for `report.pdf`. Its first line names the document,
// so that a file of the user's own is never overwritten.
import { lstat, unlink } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { isDocument } from './document/kind.ts'
import { NAME_BYTES_MAX } from './name.ts'
import { nullIfMissing, openToRead } from './paths.ts'

const HEAD = '<!-- Text of '
/** The longest first line: a name of 255 bytes, each escaped. */
const LINE_BYTES = 2048

export function markdownCopyText(document: string, text: string): string {
  return `${firstLine(document)}\n\n${text}`
}

function firstLine(document: string): string {
  // The bracket would end the comment.
  return `${HEAD}${JSON.stringify(document).replaceAll('>', '\\u003e')} -->`
}

/**
 * The name for the copy of a document: `report.md`, or `report.pdf.md` if another file has that name.
 * @param taken names of uploads in the same request
 * @returns null: both names are taken
 */
export async function markdownCopyName(
  folder: string,
  document: string,
  taken: ReadonlySet<string>
): Promise<string | null> {
  for (const name of candidates(document)) {
    if (taken.has(name)) continue
    const owner = await ownerOf(join(folder, name), document)
    if (owner === 'nobody' || owner === 'document') return name
  }
  return null
}

/**
 * Deletes the copy of a document.
 * @param isGone the document is deleted too: then also `report.md` without a first line of ours [contract 6.1]
 */
export async function removeMarkdownCopy(folder: string, document: string, isGone: boolean): Promise<void> {
  if (!isDocument(document)) return
  for (const [at, name] of candidates(document).entries()) {
    const owner = await ownerOf(join(folder, name), document)
    if (owner === 'document' || (isGone && at === 0 && owner === 'unknown'))
      await unlink(join(folder, name)).catch(nullIfMissing)
  }
}

function candidates(document: string): string[] {
  const stem = document.slice(0, document.length - extname(document).length)
  return [`${stem}.md`, `${document}.md`].filter((name) => Buffer.byteLength(name) <= NAME_BYTES_MAX)
}

/** Which document a file is the copy of. `link`: never touched. */
async function ownerOf(
  path: string,
  document: string
): Promise<'nobody' | 'document' | 'another' | 'unknown' | 'link'> {
  const stats = await lstat(path).catch(nullIfMissing)
  if (stats === null) return 'nobody'
  if (!stats.isFile() || stats.nlink !== 1) return 'link'
  const line = await firstLineOf(path)
  if (line === firstLine(document)) return 'document'
  return line.startsWith(HEAD) ? 'another' : 'unknown'
}

async function firstLineOf(path: string): Promise<string> {
  const file = await openToRead(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LINE_BYTES), 0, LINE_BYTES, 0)
    return buffer.toString('utf8', 0, bytesRead).split('\n', 1)[0]!
  } finally {
    await file.close()
  }
}
