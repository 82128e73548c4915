// Conversations as files: one is written as Markdown or JSON, and those of our own JSON are read again.
import { call } from './api.ts'
import { saveText } from './files.ts'
import { type Checkpoint, messagesIn, partsOf } from './records.ts'
import { refresh, type Thread, titleOf } from './threads.ts'
import type { TranscriptMessage } from '../client/colloquy.ts'
import { t } from './words.ts'

/** What our own file is known by. */
const KIND = 'colloquy/conversation'
/** Files above this are not read, in bytes: what a request may have is far less. */
const FILE_MAX = 64 * 1024 * 1024
const CONVERSATIONS_MAX = 1000

interface Saved {
  readonly kind: typeof KIND
  readonly version: 1
  readonly title: string
  readonly created_at: string
  readonly messages: readonly Readonly<Record<string, unknown>>[]
}

type Form = 'markdown' | 'json'

/** Gives a conversation to its reader as a file. @throws ApiError when it cannot be read */
export async function exportThread(thread: Thread, form: Form): Promise<void> {
  const path = `/api/threads/${encodeURIComponent(thread.thread_id)}/history`
  const [newest] = await call<Checkpoint[]>('POST', path, { limit: 1 })
  const title = titleOf(thread)
  const messages = newest ? messagesIn(newest.values) : []
  const saved: Saved = { kind: KIND, version: 1, title, created_at: thread.created_at, messages }
  if (form === 'json') saveText(`${JSON.stringify(saved, null, 2)}\n`, `${title}.json`)
  else saveText(markdownOf(saved), `${title}.md`)
}

const NAMES: Readonly<Record<string, string>> = { human: 'You', ai: 'Answer', system: 'Instructions' }

function markdownOf({ title, created_at, messages }: Saved): string {
  const parts = messages.flatMap((message) => {
    // Of LangGraph's form, as the server sends it.
    const content = (message.content ?? '') as TranscriptMessage['content']
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls : []
    if (message.type === 'tool') return [`> Result of ${String(message.name ?? 'a tool')}`, ...resultIn(content)]
    const text = partsIn(content, String).join('\n\n').trim()
    const called = calls.map(
      (one: { name?: unknown; args?: unknown }) =>
        `> Calls ${String(one.name)}\n\n${fenced(JSON.stringify(one.args, null, 2), 'json')}`
    )
    const said = text === '' ? [] : [`## ${NAMES[String(message.type)] ?? String(message.type)}`, text]
    return [...said, ...called]
  })
  return `${[`# ${title}`, created_at, ...parts].join('\n\n')}\n`
}

/** Texts, each written by `write`, and images. */
function partsIn(content: TranscriptMessage['content'], write: (text: string) => string): string[] {
  return partsOf(content).map((part) => ('text' in part ? write(part.text) : imageOf(part.image)))
}

/** What a tool has answered: each of its texts in a fence. */
const resultIn = (content: TranscriptMessage['content']): string[] =>
  (typeof content === 'string' ? [content] : content).flatMap((block) => partsIn([block], fenced))

/** In brackets an address may have whatever it has, but their like. */
const imageOf = (url: string): string => `![Image](<${url.replace(/[<>\s]/g, encodeURIComponent)}>)`

/** A fence that is longer than those within. */
function fenced(text: string, language = ''): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}${language}\n${text}\n${fence}`
}

/** Makes conversations of files that this page has written. @returns their ids @throws Error with a sentence */
export async function importFiles(files: Iterable<File>): Promise<string[]> {
  const ids: string[] = []
  for (const file of files) for (const one of await savedIn(file)) ids.push(await make(one))
  await refresh()
  return ids
}

async function savedIn(file: File): Promise<Saved[]> {
  if (file.size > FILE_MAX) throw new Error(t('{} is too large', file.name))
  const read: unknown = await file
    .text()
    .then(JSON.parse)
    .catch(() => null)
  const list: unknown[] = Array.isArray(read) ? read : [read]
  if (list.length > CONVERSATIONS_MAX || !list.every(isSaved))
    throw new Error(t('{} has no conversations of this page', file.name))
  return list
}

function isSaved(value: unknown): value is Saved {
  if (typeof value !== 'object' || value === null) return false
  const { kind, version, title, messages } = value as Partial<Record<keyof Saved, unknown>>
  return kind === KIND && version === 1 && typeof title === 'string' && Array.isArray(messages)
}

async function make({ title, messages }: Saved): Promise<string> {
  const { thread_id } = await call<{ thread_id: string }>('POST', '/api/threads', { metadata: { imported: true } })
  await call('POST', `/api/threads/${thread_id}/state`, { values: { title, messages: messages.map(withoutOrigin) } })
  return thread_id
}

/** Runs and ratings stay where they were made. */
function withoutOrigin({ run_id: _run, feedback: _feedback, ...message }: Readonly<Record<string, unknown>>): object {
  return message
}
