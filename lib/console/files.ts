// Files of a thread: where they are, what they are, and what an agent has written of them.
import type { TranscriptMessage } from '../client/colloquy.ts'
import { BASE } from './base.ts'

/** A file of a thread that goes with a message. */
export interface Attached {
  readonly filename: string
  readonly size: number
  readonly virtual_path: string
}

/** Where agents see a thread's files. */
const ROOT = '/mnt/user-data/'

export function artifactUrl(threadId: string, path: string, isDownload = false): string {
  return BASE + artifactPath(threadId, path, isDownload)
}

/** The same for calls, which know the base path themselves. */
export function artifactPath(threadId: string, path: string, isDownload = false): string {
  const encoded = partsOf(path).map(encodeURIComponent).join('/')
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts/${encoded}${isDownload ? '?download=true' : ''}`
}

/** Without the dots of folders above: a browser would go up by them before it asks, to whatever else is there. */
function partsOf(path: string): string[] {
  const parts: string[] = []
  for (const part of path.replace(/^\//, '').split('/'))
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  return parts
}

/** The address of a file that an answer names: whole, or as seen from the outputs. */
export function fileUrl(threadId: string, path: string): string {
  return artifactUrl(threadId, path.startsWith('/') ? path : `${ROOT}outputs/${path.replace(/^\.\//, '')}`)
}

/** Where a file is that was uploaded. */
export const uploadedPath = (filename: string): string => `${ROOT}uploads/${filename}`

/** The address of an uploaded image; null: it is none. */
export function pictureOf(threadId: string, { filename, virtual_path }: Attached): string | null {
  return kindOf(filename) === 'image' ? artifactUrl(threadId, virtual_path) : null
}

export const nameOf = (path: string): string => path.split('/').at(-1) ?? path

export type Kind = 'document' | 'drawing' | 'image' | 'markdown' | 'table' | 'text'
const KINDS: readonly [RegExp, Kind][] = [
  [/\.x?html?$/i, 'document'],
  [/\.svg$/i, 'drawing'],
  [/\.(png|jpe?g|gif|webp|avif)$/i, 'image'],
  [/\.(md|markdown)$/i, 'markdown'],
  [/\.csv$/i, 'table']
]
export const kindOf = (path: string): Kind => KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? 'text'

/** What was written to a file by tool calls, oldest first. */
export function versionsOf(messages: readonly TranscriptMessage[], path: string): readonly string[] {
  const failed = new Set(messages.filter(({ raw }) => raw.status === 'error').map(({ raw }) => raw.tool_call_id))
  const texts = messages.flatMap(({ calls }) =>
    calls.flatMap((call) => (failed.has(call.id) ? [] : writtenBy(call.args, path)))
  )
  return texts.filter((text, i) => text !== texts[i - 1])
}

function writtenBy(args: string, path: string): string[] {
  if (!args.includes(nameOf(path))) return []
  try {
    const { path: at, file_path, content } = JSON.parse(args)
    const target = String(at ?? file_path)
    const isIt = target === path || `${ROOT}outputs/${target}` === path
    return isIt && typeof content === 'string' ? [content] : []
  } catch {
    // Still arriving.
    return []
  }
}

/** Saves a text as a file of this name. */
export function saveText(text: string, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  link.download = name.replace(/[^\p{L}\p{N}.-]+/gu, '_')
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
