// Loads the thread list: pages, pinned ones first, and search.
import { batch, computed, signal } from '@preact/signals'
import { ApiError } from '../client/colloquy.ts'
import { call, colloquy } from './api.ts'
import { forgetThread, keepThreadList, keptThreadList } from './kept-threads.ts'
import { Removals } from './removals.ts'
import { notify, notifyFailure } from './toast.ts'
import { t } from './words.ts'

export interface Thread {
  readonly thread_id: string
  readonly status: string
  readonly created_at: string
  readonly updated_at: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly values: { readonly title?: string }
}

const PAGE = 40
/** Page size of a search. */
const SEARCH_PAGE = 1000
const FOUND_MAX = 200

const newest = signal<readonly Thread[]>([])
const pinned = signal<readonly Thread[]>([])
export const total = signal<number | null>(null)
export const hasMore = signal(false)
const isLoading = signal(false)

export const query = signal('')
export const found = signal<readonly Thread[]>([])
/** How many the search has found, of which `found` lists the first. */
export const foundTotal = signal(0)
export const isSearching = signal(false)

/** Pinned ones first, each once. */
export const threads = computed(() => {
  const ids = new Set(pinned.value.map(({ thread_id }) => thread_id))
  const all = [...pinned.value, ...newest.value.filter(({ thread_id }) => !ids.has(thread_id))]
  return all.filter((thread) => !isArchived(thread) && !removals.has(thread.thread_id))
})
/** Of the search, without those that are about to go. */
export const shownFound = computed(() => found.value.filter(({ thread_id }) => !removals.has(thread_id)))

export const isArchived = ({ metadata }: Thread): boolean => metadata.archived === true
export const isPinned = ({ metadata }: Thread): boolean => metadata.pinned === true
/** First words of conversations that have no title yet, as far as this page knows them. */
const beginnings = signal<Readonly<Record<string, string>>>({})
const BEGINNING = 60

/** A conversation is called by its first words until it has a title. */
export function begins(threadId: string, text: string): string {
  const words = text.slice(0, BEGINNING)
  if (beginnings.peek()[threadId] !== words) beginnings.value = { ...beginnings.peek(), [threadId]: words }
  return words
}

export const titleOf = ({ thread_id, values }: Pick<Thread, 'thread_id' | 'values'>): string =>
  values.title || beginnings.value[thread_id] || t('New conversation')

/** The title that the lists have of a thread, wherever it was named; undefined: none has it. */
export const listedTitle = (threadId: string): string | undefined =>
  [...newest.value, ...pinned.value, ...found.value].find(({ thread_id }) => thread_id === threadId)?.values.title

interface Listed {
  readonly list: Thread[]
  /** Of the server, of which these are a page. */
  readonly total: number
}

async function search(body: object, signal?: AbortSignal): Promise<Listed> {
  const { text, headers } = await colloquy.request('POST', '/api/threads/search', { body, signal })
  const list = JSON.parse(text) as Thread[]
  return { list, total: Number(headers.get('x-pagination-total') ?? list.length) }
}

/** Called with each reload of the list: what else is known of threads is read again. */
let onRefreshed: () => void = () => {}
export function whenRefreshed(listener: () => void): void {
  onRefreshed = listener
}

/** Reloads the first page and the pinned threads; further pages stay. */
export async function refresh(): Promise<void> {
  const [page, pins] = await Promise.all([search({ limit: PAGE }), search({ limit: 100, metadata: { pinned: true } })])
  const fresh = new Set(page.list.map(({ thread_id }) => thread_id))
  const behind = newest.value.slice(PAGE).filter(({ thread_id }) => !fresh.has(thread_id))
  onRefreshed()
  keepThreadList(page.list)
  batch(() => {
    newest.value = [...page.list, ...behind]
    pinned.value = pins.list
    total.value = page.total
    hasMore.value = newest.value.length < page.total
  })
}

/** Until the server is there, the list as this device has it. */
export function showKeptThreads(): void {
  if (newest.value.length === 0) newest.value = keptThreadList<Thread>()
}

/** News come in bursts: a run that begins changes its thread several times. */
const SOON_MS = 300
let soon: ReturnType<typeof setTimeout> | undefined

export function refreshSoon(): void {
  clearTimeout(soon)
  soon = setTimeout(() => document.hidden || void refresh().catch(() => {}), SOON_MS)
}

export async function loadMore(): Promise<void> {
  if (isLoading.value || !hasMore.value) return
  isLoading.value = true
  try {
    const page = await search({ limit: PAGE, offset: newest.value.length })
    const known = new Set(newest.value.map(({ thread_id }) => thread_id))
    batch(() => {
      newest.value = [...newest.value, ...page.list.filter(({ thread_id }) => !known.has(thread_id))]
      hasMore.value = page.list.length === PAGE
      total.value = page.total
    })
  } catch (error) {
    notifyFailure(error)
  } finally {
    isLoading.value = false
  }
}

let looking: AbortController | null = null

/** Finds titles that contain all the words, as they arrive, and the messages that do. */
export async function find(text: string): Promise<void> {
  query.value = text
  looking?.abort()
  found.value = []
  foundTotal.value = 0
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  isSearching.value = words.length > 0
  void import('./hits.ts').then(({ findTexts }) => findTexts(query.value)).catch(() => {})
  if (words.length === 0) return
  const mine = new AbortController()
  looking = mine
  try {
    for await (const { list, total } of pagesWith(words, mine.signal)) {
      const hits = list.filter((thread) => words.every((word) => titleOf(thread).toLowerCase().includes(word)))
      // All that the server has of the one word; of several those that were read.
      foundTotal.value = words.length === 1 ? total : foundTotal.value + hits.length
      found.value = [...found.value, ...hits].slice(0, FOUND_MAX)
      if (found.value.length === FOUND_MAX) break
    }
  } catch (error) {
    if (!mine.signal.aborted) notifyFailure(error)
  } finally {
    if (looking === mine) isSearching.value = false
  }
}

/**
 * Candidate threads, in pages. The server searches for the longest word; of a user with too many threads for that the newest are read, and
 * the index of words has the others.
 */
async function* pagesWith(words: readonly string[], signal: AbortSignal): AsyncGenerator<Listed> {
  const longest = words.toSorted((a, b) => b.length - a.length)[0]
  for (let offset = 0; ; offset += SEARCH_PAGE) {
    try {
      const page = await search({ limit: SEARCH_PAGE, offset, query: longest }, signal)
      yield page
      if (page.list.length < SEARCH_PAGE) return
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 422) throw error
      const { list } = await search({ limit: SEARCH_PAGE, offset: 0 }, signal)
      // Of all threads, not of those with the word.
      yield { list, total: 0 }
      return
    }
  }
}

/** Changes a thread in all lists. */
function change(threadId: string, how: (thread: Thread) => Thread | null): void {
  const changed = (list: readonly Thread[]) =>
    list.flatMap((thread) => (thread.thread_id === threadId ? (how(thread) ?? []) : thread))
  batch(() => {
    newest.value = changed(newest.value)
    pinned.value = changed(pinned.value)
    found.value = changed(found.value)
  })
}

export async function rename(threadId: string, title: string): Promise<void> {
  await call('POST', `/api/threads/${threadId}/state`, { values: { title } })
  change(threadId, (thread) => ({ ...thread, values: { title } }))
}

export async function pin(thread: Thread, isOn: boolean): Promise<void> {
  const { thread_id } = thread
  await call('PATCH', `/api/threads/${thread_id}`, { metadata: { pinned: isOn } })
  change(thread_id, (one) => ({ ...one, metadata: { ...one.metadata, pinned: isOn } }))
  await refresh()
}

/** Puts a thread out of the list, or back into it. */
export async function archive(thread: Thread, isOn: boolean): Promise<void> {
  await call('PATCH', `/api/threads/${thread.thread_id}`, { metadata: { archived: isOn } })
  change(thread.thread_id, (one) => ({ ...one, metadata: { ...one.metadata, archived: isOn } }))
  if (isOn) notify('Archived. A search still finds it.', false, () => void archive(thread, false).catch(notifyFailure))
}

const removals = new Removals()

/** Deletes a thread, unless that is undone. */
export function remove(threadId: string): void {
  removals.add(threadId, {
    path: `/api/threads/${encodeURIComponent(threadId)}`,
    notice: 'The conversation is deleted.',
    onGone: () => {
      change(threadId, () => null)
      forgetThread(threadId)
      if (total.value !== null) total.value--
    }
  })
}

/** Whether conversations can be shared here; asked when it matters first. */
export const canShare = signal(false)
let hasAsked = false

export function askSharing(): void {
  if (hasAsked) return
  hasAsked = true
  call<{ sharing?: { enabled: boolean } }>('GET', '/api/features').then(
    ({ sharing }) => (canShare.value = sharing?.enabled ?? false),
    () => (hasAsked = false)
  )
}
