// What a run changes in the files that agents write: its workspace and outputs as they were before it, compared with what is there
// afterwards. Everything is bounded: a large workspace has changes without texts, or is compared in part.
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { JsonObject } from '../base/types.ts'
import { lineDiff } from './line-diff.ts'
import { nullIfMissing, openToRead, type Paths, VIRTUAL_ROOT } from './paths.ts'

/** What its record is called, and the event that it becomes: `{ version, summary, files, limits }`. */
const TAG = 'workspace'
export const CHANGES_EVENT = `middleware:${TAG}`
const LIMITS = {
  max_files: 200,
  max_scanned_files: 2000,
  max_file_bytes_for_diff: 256 * 1024,
  max_total_diff_bytes: 1024 * 1024
}
/** Folders that agents write to. */
const ROOTS = ['workspace', 'outputs'] as const
const DEPTH_MAX = 16
/** Folders of tools, whose files nobody has written. */
const SKIPPED = new Set(['.git', 'node_modules', '__pycache__', '.venv'])
/** Bytes of texts that are kept while a run goes on, and for all runs of this process. */
const KEPT_BYTES = 2 * 1024 * 1024
const KEPT_IN_ALL = 32 * 1024 * 1024
/** Names of files that hold secrets: their texts are shown nowhere. */
const SENSITIVE =
  /(?:^|\/)(?:\.env(?:\.[^/]*)?|[^/]*\.(?:pem|key|p12|pfx)|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|\.npmrc|\.pypirc|(?:credentials|secrets?)(?:\.[^/]*)?)$/i

/** One file as it was found. */
interface Found {
  readonly root: string
  readonly real: string
  /** Changes with its content. */
  readonly stamp: string
  readonly size: number
  /** Of a symbolic link, which is never followed. */
  readonly target: string | null
}

/** What is known of a file's content. */
interface Content {
  readonly sha256: string | null
  readonly text: string | null
  readonly isBinary: boolean
}

interface Listing {
  /** By virtual path. */
  readonly files: ReadonlyMap<string, Found>
  /** There were more. */
  readonly isCut: boolean
}

interface Snapshot extends Listing {
  readonly contents: ReadonlyMap<string, Content>
  /** Of its texts, counted in all. */
  readonly bytes: number
}

const NOTHING: Snapshot = { files: new Map(), contents: new Map(), isCut: false, bytes: 0 }
const UNREAD: Content = { sha256: null, text: null, isBinary: false }

export class WorkspaceChanges {
  readonly #paths: Paths
  #keptBytes = 0

  constructor(paths: Paths) {
    this.#paths = paths
  }

  /**
   * Runs `work`, and gives `report` what it has changed, if anything, before it settles. What cannot be compared is not reported: a run
   * never fails by it.
   */
  async during(
    { thread_id, user_id }: { readonly thread_id: string; readonly user_id: string | null },
    work: () => Promise<void>,
    report: (tag: string, changes: JsonObject) => void
  ): Promise<void> {
    const hasFiles = () => this.#paths.hasFiles(thread_id, user_id ?? undefined)
    const before = hasFiles() ? await this.#snapshot(thread_id, user_id ?? undefined).catch(() => null) : NOTHING
    if (before === null) return work()
    try {
      await work()
    } finally {
      this.#keptBytes -= before.bytes
      const isStillEmpty = before === NOTHING && !hasFiles()
      const after = isStillEmpty ? null : await this.#list(thread_id, user_id ?? undefined).catch(() => null)
      const changes = after && (await changesBetween(before, after).catch(() => null))
      if (changes) report(TAG, changes)
    }
  }

  async #list(threadId: string, userId: string | undefined): Promise<Listing> {
    const files = new Map<string, Found>()
    const folder = this.#paths.userData(threadId, userId)
    for (const root of ROOTS) {
      const isWhole = await walk({ root, real: join(folder, root), path: `${VIRTUAL_ROOT}/${root}` }, DEPTH_MAX, files)
      if (!isWhole) return { files, isCut: true }
    }
    return { files, isCut: false }
  }

  async #snapshot(threadId: string, userId: string | undefined): Promise<Snapshot> {
    const listing = await this.#list(threadId, userId)
    const contents = new Map<string, Content>()
    let bytes = 0
    for (const [path, found] of listing.files) {
      if (bytes + found.size > KEPT_BYTES || this.#keptBytes + bytes + found.size > KEPT_IN_ALL) continue
      const content = await contentOf(path, found)
      contents.set(path, content)
      bytes += content.text?.length ?? 0
    }
    this.#keptBytes += bytes
    return { ...listing, contents, bytes }
  }
}

interface Place {
  readonly root: string
  readonly real: string
  readonly path: string
}

/** @returns false: there are more than are looked at */
async function walk({ root, real, path }: Place, depth: number, files: Map<string, Found>): Promise<boolean> {
  const stats = await lstat(real, { bigint: true }).catch(nullIfMissing)
  if (stats === null) return true
  if (stats.isDirectory()) {
    if (depth === 0) return true
    for (const name of (await readdir(real).catch(nullIfMissing))?.sort() ?? []) {
      if (SKIPPED.has(name)) continue
      if (!(await walk({ root, real: join(real, name), path: `${path}/${name}` }, depth - 1, files))) return false
    }
    return true
  }
  if (depth === DEPTH_MAX || !(stats.isFile() || stats.isSymbolicLink())) return true
  if (files.size === LIMITS.max_scanned_files) return false
  const target = stats.isSymbolicLink() ? await readlink(real).catch(() => '') : null
  const stamp = `${stats.ino}:${stats.size}:${stats.mtimeNs}:${target ?? ''}`
  files.set(path, { root, real, stamp, size: Number(stats.size), target })
  return true
}

async function contentOf(path: string, { real, size, target }: Found): Promise<Content> {
  if (target !== null || size > LIMITS.max_file_bytes_for_diff) return UNREAD
  const file = await openToRead(real).catch(() => null)
  if (file === null) return UNREAD
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > LIMITS.max_file_bytes_for_diff) return UNREAD
    const bytes = await file.readFile()
    const isBinary = bytes.includes(0) || !isUtf8(bytes)
    const text = isBinary || SENSITIVE.test(path) ? null : bytes.toString('utf8')
    return { sha256: createHash('sha256').update(bytes).digest('hex'), text, isBinary }
  } finally {
    await file.close()
  }
}

/** null: nothing has changed. */
async function changesBetween(before: Snapshot, after: Listing): Promise<JsonObject | null> {
  const counts = { created: 0, modified: 0, deleted: 0, symlink_created: 0, additions: 0, deletions: 0 }
  const files: JsonObject[] = []
  let diffBytes = 0
  let isCut = before.isCut || after.isCut
  for (const path of [...new Set([...before.files.keys(), ...after.files.keys()])].sort()) {
    const old = before.files.get(path)
    const fresh = after.files.get(path)
    if (old?.stamp === fresh?.stamp) continue
    // Of what was listed in part, what is missing may only lie behind the end.
    if ((before.isCut && !old) || (after.isCut && !fresh)) continue
    const was = old && (before.contents.get(path) ?? UNREAD)
    const is = fresh && (files.length < LIMITS.max_files ? await contentOf(path, fresh) : UNREAD)
    if (was?.sha256 && was.sha256 === is?.sha256) continue
    isCut ||= files.length === LIMITS.max_files
    if (files.length === LIMITS.max_files) {
      counts[statusOf(old, fresh)]++
      continue
    }
    const change = changeOf(path, { old, fresh, was, is }, LIMITS.max_total_diff_bytes - diffBytes)
    counts[change.status]++
    counts.additions += change.additions
    counts.deletions += change.deletions
    diffBytes += Buffer.byteLength(change.diff)
    files.push({ ...change })
  }
  if (files.length === 0) return null
  return { version: 1, summary: { ...counts, truncated: isCut }, files, limits: LIMITS }
}

interface Sides {
  readonly old: Found | undefined
  readonly fresh: Found | undefined
  readonly was: Content | undefined
  readonly is: Content | undefined
}

function statusOf(old: Found | undefined, fresh: Found | undefined) {
  if (!fresh) return 'deleted'
  return fresh.target !== null ? 'symlink_created' : old ? 'modified' : 'created'
}

function changeOf(path: string, sides: Sides, diffBytes: number) {
  const { old, fresh, was, is } = sides
  const isLink = (fresh ?? old)?.target !== null
  const isBinary = was?.isBinary === true || is?.isBinary === true
  const isSensitive = SENSITIVE.test(path)
  const reason = isLink ? 'symlink' : isSensitive ? 'sensitive' : isBinary ? 'binary' : textless(sides)
  const { hunks, ...lines } =
    reason === null ? lineDiff(was?.text ?? '', is?.text ?? '') : { hunks: '', additions: 0, deletions: 0 }
  const name = path.slice(1)
  const diff = hunks && `--- ${old ? `a/${name}` : '/dev/null'}\n+++ ${fresh ? `b/${name}` : '/dev/null'}\n${hunks}`
  const shown = cutToLines(diff, diffBytes)
  const isTruncated = shown.length < diff.length
  return {
    path,
    root: (fresh ?? old)!.root,
    status: statusOf(old, fresh),
    binary: isBinary,
    sensitive: isSensitive,
    size_before: old?.size ?? null,
    size_after: fresh?.size ?? null,
    sha256_before: was?.sha256 ?? null,
    sha256_after: is?.sha256 ?? null,
    diff: shown,
    diff_truncated: isTruncated,
    diff_unavailable_reason: isTruncated && shown === '' ? 'truncated' : reason,
    ...lines,
    symlink: isLink,
    symlink_target_before: old?.target ?? null,
    symlink_target_after: fresh?.target ?? null
  } as const
}

/** Why there is no text of a file that is no link, neither binary nor secret; null: there is one. */
function textless({ old, fresh, was, is }: Sides): 'large' | 'truncated' | null {
  const isLarge = (found: Found | undefined) => (found?.size ?? 0) > LIMITS.max_file_bytes_for_diff
  if (isLarge(old) || isLarge(fresh)) return 'large'
  // It was not kept, or went while it was read.
  return was?.text === null || is?.text === null ? 'truncated' : null
}

function cutToLines(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text
  const cut = Buffer.from(text).subarray(0, Math.max(0, maxBytes)).toString('utf8')
  return cut.slice(0, cut.lastIndexOf('\n') + 1)
}
