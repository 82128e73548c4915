// Publishes drafts of uploads: each gets its name by one rename, so that readers see either the old file or the new one.
import { lstat, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { markdownCopyName, markdownCopyText, removeMarkdownCopy } from './markdown-copy.ts'
import type { Draft } from './upload-receiver.ts'
import { freeName } from './name.ts'
import { nullIfMissing } from './paths.ts'

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

/**
 * Renames drafts to their names in `folder`, in order.
 * @param texts text of each draft that is a document, for its Markdown copy; else null
 * @param bad invalid names, as sent
 */
export async function publish(
  drafts: readonly Draft[],
  texts: readonly (string | null)[],
  bad: readonly string[],
  folder: string
): Promise<Received> {
  const files: ReceivedFile[] = []
  const documents: { file: number; draft: string; text: string }[] = []
  const skipped = [...bad]
  const taken = new Set<string>()
  for (const [at, { path, given, name: wanted, size }] of drafts.entries()) {
    const name = taken.has(wanted) ? await freeName(wanted, taken, folder) : wanted
    const target = join(folder, name)
    if (!(await isReplaceable(target))) {
      skipped.push(given)
      continue
    }
    await rename(path, target)
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
    const markdown = await markdownCopyName(folder, filename, taken)
    if (markdown === null) continue
    await writeFile(draft, markdownCopyText(filename, text), { flag: 'wx', mode: 0o644 })
    await rename(draft, join(folder, markdown))
    files[file] = { ...files[file]!, markdown }
  }
  return { files, skipped }
}

/**
 * Whether there is nothing, or a plain file without other hard links. Links are never made by uploads: somebody may want to
 * redirect the bytes, or read them under another name.
 */
async function isReplaceable(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(nullIfMissing)
  return stats === null || (stats.isFile() && stats.nlink === 1)
}
