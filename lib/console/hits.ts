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
  readonly waiting: number
}

const PAGE = 20
/** What is typed within this time is one search, in ms. */
const TYPING_MS = 120
const NONE: Page = { hits: [], total: 0, waiting: 0 }

/** What messages have been found, those of the newest search. */
export const page = signal<Page>(NONE)

let words = ''
let typed: ReturnType<typeof setTimeout> | undefined

/** Looks for messages that have these words. Never fails: titles are found all the same. */
export function findTexts(text: string): void {
  clearTimeout(typed)
  words = text.trim()
  if (words === '') page.value = NONE
  else typed = setTimeout(() => void look([]), TYPING_MS)
}

export const moreTexts = (): Promise<void> => look(page.value.hits)

async function look(before: readonly Hit[]): Promise<void> {
  const asked = words
  const path = `/api/v1/search?q=${encodeURIComponent(asked)}&limit=${PAGE}&offset=${before.length}`
  const found = await call<Page>('GET', path).catch((error: unknown) => {
    if (!isUnavailable(error)) console.warn(error)
    return NONE
  })
  if (asked === words) page.value = { ...found, hits: [...before, ...found.hits] }
}

/** Where a hit is on the page. */
export const linkOf = ({ thread_id, message_id }: Hit): string =>
  message_id === null ? threadLink(thread_id) : `${threadLink(thread_id)}/m/${encodeURIComponent(message_id)}`

export const nameOfHit = ({ title }: Hit): string => title || 'New conversation'

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

/** Messages that were found, below the conversations whose titles were. `known`: conversations that are listed already. */
export function View({ known }: { readonly known: ReadonlySet<string> }) {
  const { hits, total, waiting } = page.value
  const shown = hitsBeside(known)
  if (shown.length === 0) return null
  return html`<section aria-label="Messages found">
    <p class="when">In messages: ${hits.length < total ? t('{} of {}', hits.length, total) : total}</p>
    <ul>${shown.map((hit) => html`<li key=${`${hit.thread_id} ${hit.message_id}`} class=${classes('thread', 'found')}><a href=${linkOf(hit)}><span class="title" dir="auto">${nameOfHit(hit)}</span><${Snippet} hit=${hit} /></a></li>`)}</ul>
    ${hits.length < total && html`<button class="plain wide" onClick=${() => void moreTexts()}>More</button>`}
    ${waiting > 0 && html`<p class="hint">${waiting} older conversations are yet to be read.</p>`}
  </section>`
}
