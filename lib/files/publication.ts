// Publishes drafts of uploads: each gets its name by one rename, so that readers see either the old file or the new one.
import { lstat, rename, unlink, writeFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { Draft } from './upload-receiver.ts'
import { freeName, NAME_BYTES_MAX } from './name.ts'
import { nullIfMissing, openToRead, placeNew } from './paths.ts'
import { isDocument } from './documents.ts'

// ----------------------------------------------------------------------------------------------------
// The Markdown copy of a document's text, next to it: `report.md` for `report.pdf`. Its first line names the document, so that a file of
// the user's own is never overwritten.

const HEAD = '<!-- Text of '
/** The longest first line: a name of 255 bytes, each escaped. */
const LINE_BYTES = 2048

function markdownCopyText(document: string, text: string): string {
  return `${firstLine(document)}\n\n${text}`
}

function firstLine(document: string): string {
  // The bracket would end the comment.
  return `${HEAD}${JSON.stringify(document).replaceAll('>', '\\u003e')} -->`
}

/**
 * Gives the copy of a document its name: `report.md`, or `report.pdf.md` if another file has that name.
 * @param taken names of uploads in the same request
 * @returns null: both names are taken
 */
async function placeMarkdownCopy(
  draft: string,
  folder: string,
  document: string,
  taken: ReadonlySet<string>
): Promise<string | null> {
  for (const name of candidates(document).filter((one) => !taken.has(one))) {
    const target = join(folder, name)
    const owner = await ownerOf(target, document)
    if (owner === 'document') await rename(draft, target)
    else if (owner !== 'nobody' || !(await placeNew(draft, target))) continue
    return name
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

export interface Upload {
  readonly filename: string
  /** Bytes. */
  readonly size: number
}

interface ReceivedFile extends Upload {
  readonly original: string | null
  /** The Markdown copy with its text. */
  readonly markdown?: string
}

export interface Received {
  /** In the order of the request; `original` is the name that was sent, if the file got another one. */
  readonly files: readonly ReceivedFile[]
  /** Names as sent that were skipped: invalid ones, and those of existing links or folders. */
  readonly skipped: readonly string[]
}

export interface Terms {
  /** False: what is there stays, and a draft of its name gets another one. */
  readonly replaces: boolean
}

/**
 * Renames drafts to their names in `folder`, in order.
 * @param texts text of each draft that is a document, for its Markdown copy; else null
 * @param bad invalid names, as sent
 */
export async function publish(
  drafts: readonly Draft[],
  texts: readonly (string | null)[],
  bad: readonly string[],
  folder: string,
  { replaces }: Terms
): Promise<Received> {
  const files: ReceivedFile[] = []
  const documents: { file: number; draft: string; text: string }[] = []
  const skipped = [...bad]
  const taken = new Set<string>()
  for (const [at, { path, given, name: wanted, size }] of drafts.entries()) {
    const mayReplace = replaces && !taken.has(wanted)
    const name = mayReplace ? await replaced(path, wanted, folder) : await placedApart(path, wanted, taken, folder)
    if (name === null) {
      skipped.push(given)
      continue
    }
    taken.add(name)
    // The Markdown copy of the file that was here before.
    await removeMarkdownCopy(folder, name, false)
    const text = texts[at] ?? null
    if (text !== null) documents.push({ file: files.length, draft: `${path}.md`, text })
    files.push({ filename: name, size, original: name === given ? null : given })
  }
  // After all uploads have their names, because these take precedence over names of copies.
  for (const { file, draft, text } of documents) {
    const { filename } = files[file]!
    await writeFile(draft, markdownCopyText(filename, text), { flag: 'wx', mode: 0o644 })
    const markdown = await placeMarkdownCopy(draft, folder, filename, taken)
    if (markdown !== null) files[file] = { ...files[file]!, markdown }
  }
  return { files, skipped }
}

/** Gives a draft its name, in place of what is there; null: that is no plain file. */
async function replaced(draft: string, name: string, folder: string): Promise<string | null> {
  const target = join(folder, name)
  if (!(await isReplaceable(target))) return null
  await rename(draft, target)
  return name
}

/** Gives a draft the name that is wanted, or the next one that nobody has, also where another request wants it at the same time. */
async function placedApart(draft: string, wanted: string, taken: ReadonlySet<string>, folder: string): Promise<string> {
  for (let isFree = !taken.has(wanted); ; isFree = false) {
    const name = isFree ? wanted : await freeName(wanted, taken, folder)
    if (await placeNew(draft, join(folder, name))) return name
  }
}

/**
 * Whether there is nothing, or a plain file without other hard links. Links are never made by uploads: somebody may want to
 * redirect the bytes, or read them under another name.
 */
async function isReplaceable(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(nullIfMissing)
  return stats === null || (stats.isFile() && stats.nlink === 1)
}
