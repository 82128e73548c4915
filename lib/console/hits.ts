// Search in what conversations show: hits of the server, as they are listed and in the palette.
import { signal } from '@preact/signals'
import { call, isUnavailable } from './api.ts'
import { classes, html } from './html.ts'
import { threadLink } from './router.ts'
import { t } from './words.ts'

export interface Hit {
  readonly thread_id: string
  readonly title: string | null
  readonly message_id: string | null
  readonly type: 'human' | 'ai' | 'title'
  readonly created_at: string
  readonly snippet: readonly { readonly text: string; readonly hit: boolean }[]
}

interface Page {
  readonly hits: readonly Hit[]
  readonly total: number
  /** Not all were counted: there are `total` at least. */
  readonly more: boolean
  readonly waiting: number
}

interface Found extends Page {
  /** Whether the server may have a page after these hits. */
  readonly goesOn: boolean
}

const PAGE = 20
/** What is typed within this time is one search, in ms. */
const TYPING_MS = 120
/** What was said just now is found soon: while texts wait for the index, a first page is asked for again, in ms, so many times. */
const AGAIN_MS = 1_000
const AGAIN_MAX = 3
const NONE: Found = { hits: [], total: 0, more: false, waiting: 0, goesOn: false }

/** What messages have been found, those of the newest search. */
export const page = signal<Found>(NONE)

let words = ''
let timer: ReturnType<typeof setTimeout> | undefined

/** Looks for messages that have these words. Never fails: titles are found all the same. */
export function findTexts(text: string): void {
  clearTimeout(timer)
  words = text.trim()
  if (words === '') page.value = NONE
  else timer = setTimeout(() => void look([]), TYPING_MS)
}

export const moreTexts = (): Promise<void> => look(page.value.hits)

async function look(before: readonly Hit[], left = AGAIN_MAX): Promise<void> {
  clearTimeout(timer)
  const asked = words
  const path = `/api/v1/search?q=${encodeURIComponent(asked)}&limit=${PAGE}&offset=${before.length}`
  const found: Page = await call<Page>('GET', path).catch((error: unknown) => {
    if (!isUnavailable(error)) console.warn(error)
    return NONE
  })
  if (asked !== words) return
  const hits = [...before, ...found.hits]
  // A page that is not full is the last one that a search gives, also where it has not looked at all texts.
  const goesOn = hits.length < found.total || (found.more && found.hits.length === PAGE)
  page.value = { ...found, hits, goesOn }
  if (found.waiting > 0 && before.length === 0 && left > 0) timer = setTimeout(() => void look([], left - 1), AGAIN_MS)
}

/** Where a hit is on the page. */
export const linkOf = ({ thread_id, message_id }: Hit): string =>
  message_id === null ? threadLink(thread_id) : `${threadLink(thread_id)}/m/${encodeURIComponent(message_id)}`

export const nameOfHit = ({ title }: Hit): string => title || t('New conversation')

/** Hits beside conversations that are listed already: a title says nothing new where its thread or a message of it is shown. */
export function hitsBeside(known: ReadonlySet<string>): readonly Hit[] {
  const { hits } = page.value
  const shown = new Set([...known, ...hits.filter(({ type }) => type !== 'title').map(({ thread_id }) => thread_id)])
  return hits.filter(({ type, thread_id }) => type !== 'title' || !shown.has(thread_id))
}

/** Text around what was found. */
export function Snippet({ hit }: { readonly hit: Hit }) {
  return html`<span class="snippet" dir="auto">${hit.snippet.map(({ text, hit }) => (hit ? html`<mark>${text}</mark>` : text))}</span>`
}

/** How many were found, and of how many where not all are here. */
function foundText({ hits, total, more }: Page): string | number {
  const all = more ? t('at least {}', total) : total
  return hits.length < total ? t('{} of {}', hits.length, all) : all
}

/** The server has not looked everywhere, and found nothing where it has. */
export function Unread() {
  const { more, hits } = page.value
  if (!more || hits.length > 0) return null
  return html`<p class="hint">Not in the newest messages, and not all older ones were read. A rarer word finds more.</p>`
}

/** Messages that were found, below the conversations whose titles were. `known`: conversations that are listed already. */
export function View({ known }: { readonly known: ReadonlySet<string> }) {
  const { waiting, goesOn } = page.value
  const shown = hitsBeside(known)
  // A page may have only titles that are listed above, and what follows it messages.
  if (shown.length === 0 && !goesOn) return html`<${Unread} />`
  return html`<section aria-label="Messages found">
    <p class="when">In messages: ${foundText(page.value)}</p>
    <ul>${shown.map((hit) => html`<li key=${`${hit.thread_id} ${hit.message_id}`} class=${classes('thread', 'found')}><a href=${linkOf(hit)}><span class="title" dir="auto">${nameOfHit(hit)}</span><${Snippet} hit=${hit} /></a></li>`)}</ul>
    ${goesOn && html`<button class="plain wide" onClick=${() => void moreTexts()}>More</button>`}
    ${waiting > 0 && html`<p class="hint">${waiting} older conversations are yet to be read.</p>`}
  </section>`
}
