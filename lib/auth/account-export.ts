// All that is kept of somebody, as a ZIP archive: JSON and Markdown of conversations, and files. Made while it is read: one thread at a
// time is in memory.
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import type { User } from '../base/accounts.ts'
import { type Feedback, isObject, type Json, type RunEvent, type Thread } from '../base/types.ts'
import { filesBelow } from '../files/paths.ts'
import type { Store } from '../store/store.ts'

type Kept = Pick<
  Store,
  'users' | 'threads' | 'events' | 'runs' | 'items' | 'crons' | 'assistants' | 'apiTokens' | 'feedback'
>

interface ExportParts {
  readonly store: Kept
  /** The newest state of a thread as JSON: what was imported is in no event. null: it has none. */
  readonly stateOf: (threadId: string) => Promise<string | null>
  /** Below it lies what somebody has in files. */
  readonly folderOf: (userId: string) => string
}

const THREADS_MAX = 1_000_000
const PAGE = 500
/** Of incomplete uploads nothing is theirs yet. */
const NOT_THEIRS = 'incoming'

/** Reads the archive; a read that fails destroys the stream. */
export async function exportOf({ store, stateOf, folderOf }: ExportParts, user: User): Promise<Readable> {
  const { ZipFile } = await import('yazl')
  const zip = new ZipFile()
  const archive = new PassThrough()
  // A file that has gone meanwhile, or a read that has failed: nobody takes half of it for all.
  zip.on('error', (error: Error) => archive.destroy(error))
  // Its reader may come later, and looks.
  archive.on('error', () => {})
  const add = (name: string, make: () => Promise<string>) =>
    zip.addReadStreamLazy(name, { compress: true }, (given) => {
      make().then(
        (text) => given(null, Readable.from([Buffer.from(text)])),
        (error: Error) => given(error, Readable.from([]))
      )
    })
  const addJson = (name: string, read: () => Promise<unknown>) =>
    add(name, async () => `${JSON.stringify(await read(), null, 2)}\n`)
  const { id, email, system_role, created_at } = user

  addJson('account.json', async () => {
    const tokens = (await store.apiTokens.list(id)).map(({ digest: _, ...token }) => token)
    const sessions = (await store.users.sessions(id)).map(({ digest: _, ...session }) => session)
    return { id, email, system_role, created_at, tokens, sessions }
  })
  addJson('schedules.json', () => store.crons.list(id))
  addJson('assistants.json', () => store.assistants.list(id))
  addJson('items.json', () => allItems(store, id))
  for (const threadId of await store.threads.idsOf(id, THREADS_MAX)) {
    const folder = `threads/${threadId}`
    addJson(`${folder}/thread.json`, async () => {
      const thread = await store.threads.get(threadId, id)
      const runs = await pages((offset) => store.runs.list(threadId, { limit: PAGE, offset }, id))
      return { ...thread, runs, feedback: await feedbackOn(store, threadId, runs, id) }
    })
    add(`${folder}/state.json`, async () => `${(await stateOf(threadId)) ?? 'null'}\n`)
    // Of the two members of a thread the second has what the first has read.
    let read: Promise<RunEvent[]> | null = null
    addJson(`${folder}/messages.json`, () => (read = messagesOf(store, threadId, id)))
    add(`${folder}/conversation.md`, async () => {
      const messages = await (read ?? messagesOf(store, threadId, id))
      read = null
      return markdownOf(await store.threads.get(threadId, id), messages)
    })
  }
  const root = folderOf(id)
  for (const path of await filesBelow(root)) {
    if (!path.startsWith(`${NOT_THEIRS}/`)) zip.addFile(join(root, path), `files/${path}`)
  }
  zip.end()
  zip.outputStream.pipe(archive)
  return archive
}

async function feedbackOn(
  { feedback }: Kept,
  threadId: string,
  runs: readonly { readonly run_id: string }[],
  userId: string
): Promise<Feedback[]> {
  const found: Feedback[] = []
  for (let at = 0; at < runs.length && feedback; at += PAGE) {
    const ids = runs.slice(at, at + PAGE).map(({ run_id }) => run_id)
    found.push(...(await feedback.byRuns(threadId, ids, userId)).values())
  }
  return found
}

async function pages<T>(read: (offset: number) => Promise<T[]>): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const page = await read(all.length)
    all.push(...page)
    if (page.length < PAGE) return all
  }
}

function allItems({ items }: Kept, userId: string) {
  return pages((offset) => items.search({ prefix: [], limit: PAGE, offset }, userId))
}

async function messagesOf({ events }: Kept, threadId: string, userId: string): Promise<RunEvent[]> {
  const all: RunEvent[] = []
  for (;;) {
    const page = await events.listMessages(threadId, { limit: PAGE, after: all.at(-1)?.seq ?? 0 }, userId)
    all.push(...page)
    if (page.length < PAGE) return all
  }
}

function markdownOf(thread: Thread | null, messages: readonly RunEvent[]): string {
  const title = thread?.display_name ?? 'Conversation'
  const parts = messages.flatMap(({ content, created_at }) => {
    const [who, text] = speakerAndText(content)
    return text === '' ? [] : [`## ${who}, ${created_at}\n\n${text}\n`]
  })
  return [`# ${title}\n`, ...parts].join('\n')
}

/** Who has said what in a message as it is kept. */
function speakerAndText(message: Json): readonly [who: string, text: string] {
  if (!isObject(message)) return ['', '']
  const { type, content } = message
  const who = type === 'human' ? 'You' : type === 'ai' ? 'Assistant' : String(type ?? '')
  if (typeof content === 'string') return [who, content]
  const blocks = Array.isArray(content) ? content.filter(isObject) : []
  return [who, blocks.flatMap(({ text }) => (typeof text === 'string' ? [text] : [])).join('\n\n')]
}
