// The layout: sidebar with threads, current view, and global shortcuts.
import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Chat } from './chat.ts'
import { Conversation } from './conversation.ts'
import { watchFigures } from './figures.ts'
import { classes, focusComposer, html, Icon } from './html.ts'
import { Later } from './later.ts'
import { goLive, isLive, onNews } from './live.ts'
import { newId } from './records.ts'
import { go, place, threadLink } from './router.ts'
import { me } from './session.ts'
import { endNew, holdNew, keptNew } from './tab-storage.ts'
import { ThreadList } from './thread-list.ts'
import { keepDelivering, unsent, unsentCount } from './unsent.ts'
import { askingCount, watchHidden } from './waiting.ts'
import './theme.ts'
import { find, listedTitle, query, refresh, refreshSoon, showKeptThreads, threads, titleOf } from './threads.ts'
import { t } from './words.ts'

const REFRESH_MS = 10_000

/** The open conversation. A new one gets its thread id at once, so that files can be uploaded to it. */
function useConversation(): { conversation: Conversation | null; onSent: () => void } {
  const [fresh, setFresh] = useState(() => keptNew() ?? newId())
  const { value } = place
  const id = value.view === 'thread' ? value.threadId : value.view === 'new' ? fresh : null
  const [sent, setSent] = useState<string | null>(null)
  const conversation = useMemo(
    () => (id === null ? null : new Conversation(id, value.view === 'new')),
    // The first message of a new thread changes the URL, but not the conversation.
    [id]
  )
  useEffect(() => () => conversation?.close(), [conversation])
  useEffect(() => {
    if (value.view === 'new' && sent === fresh) setFresh(newId())
  }, [value.view])
  // Files of a draft lie in its thread, also after a reload.
  useEffect(() => {
    if (sent !== fresh) return holdNew(fresh)
    endNew()
    return undefined
  }, [fresh, sent])
  const onSent = () => {
    if (id === null || value.view !== 'new') return
    setSent(id)
    go(threadLink(id))
  }
  return { conversation, onSent }
}

export function Shell() {
  const { conversation, onSent } = useConversation()
  const isSideOpen = useSignal(false)
  const isAccountOpen = useSignal(me.value?.needs_setup ?? false)
  const areKeysShown = useSignal(false)
  const isPaletteOpen = useSignal(false)
  const { view } = place.value
  const waits = askingCount.value
  const runId = place.value.view === 'thread' ? place.value.runId : null

  useEffect(() => {
    if (me.value?.system_role === 'admin') watchFigures()
    void refresh().catch(showKeptThreads)
    const timer = setInterval(() => document.hidden || isLive.value || void refresh().catch(() => {}), REFRESH_MS)
    const offNews = onNews(refreshSoon)
    goLive()
    const offHidden = watchHidden()
    const stopDelivering = keepDelivering()
    const onOnline = () => {
      goLive()
      refreshSoon()
    }
    addEventListener('online', onOnline)
    return () => {
      offHidden()
      stopDelivering()
      removeEventListener('online', onOnline)
      clearInterval(timer)
      offNews()
    }
  }, [])
  useEffect(() => {
    isSideOpen.value = false
  }, [place.value])
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => onShortcut(event, { isSideOpen, areKeysShown, isPaletteOpen })
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  // Over a narrow page the side is a drawer: it has the focus, and the page behind it is out of reach.
  const isDrawer = isSideOpen.value && isNarrow()
  useEffect(() => {
    if (!isDrawer) return
    for (const behind of document.querySelectorAll('.shell > :not(.side, .veil)')) behind.toggleAttribute('inert', true)
    const { activeElement } = document
    if (!activeElement?.closest('.side')) document.querySelector<HTMLElement>('.side .new')?.focus()
    return () => {
      for (const behind of document.querySelectorAll('.shell > [inert]')) behind.removeAttribute('inert')
      document.querySelector<HTMLElement>('.top button')?.focus()
    }
  }, [isDrawer])
  // It may be named anew while it is open.
  const title = conversation && (listedTitle(conversation.threadId) || conversation.shown.title.value)
  useEffect(() => {
    const name = view === 'overview' ? t('Overview') : view === 'inbox' ? t('Waits for you') : title
    document.title = `${waits > 0 ? `(${waits}) ` : ''}${name ? `${name} · ` : ''}Colloquy`
  })

  return html`<div class=${classes('shell', isSideOpen.value && 'side-open')}>
    <${Skip} />
    <header class="top">
      <button class="quiet" aria-label="Conversations" aria-expanded=${isSideOpen.value} onClick=${() => (isSideOpen.value = !isSideOpen.value)}><${Icon} name="menu" /></button>
      <b>${view === 'overview' ? t('Overview') : view === 'inbox' ? t('Waits for you') : (title ?? 'Colloquy')}</b>
      <a class="quiet button" href="#/" aria-label="New conversation"><${Icon} name="plus" /></a>
    </header>
    <div class="veil" onClick=${() => (isSideOpen.value = false)}></div>
    <aside class="side" aria-label="Side" onClick=${(event: MouseEvent) => {
      if ((event.target as Element).closest('a')) isSideOpen.value = false
    }}>
      <div class="brand"><img src=${new URL('icon.svg', import.meta.url).href} alt="" width="26" height="26" /><b>Colloquy</b></div>
      <a class="new" href="#/"><${Icon} name="plus" /> New conversation</a>
      <label class="search"><${Icon} name="search" /><input id="search" type="search" placeholder="Search" aria-label="Search conversations" value=${query.value} onInput=${(event: InputEvent) => void find((event.currentTarget as HTMLInputElement).value)} /></label>
      <${ThreadList} />
      <${Skip} />
      <div class="foot">
        ${unsentCount.value > 0 && html`<a class="entry" href=${threadLink(Object.keys(unsent.value)[0]!)}><${Icon} name="queue" /> <span>Not sent yet</span><b class="count">${unsentCount.value}</b></a>`}
        ${waits > 0 && html`<a class=${classes('entry', view === 'inbox' && 'on')} href="#/inbox"><${Icon} name="ask" /> <span>Waits for you</span><b class="count">${waits}</b></a>`}
        ${me.value?.system_role === 'admin' && html`<a class=${classes('entry', view === 'overview' && 'on')} href="#/overview"><${Icon} name="gauge" /> Overview</a>`}
        <button class="entry" onClick=${() => (isAccountOpen.value = true)}><${Icon} name="user" /> <span>${me.value?.email}</span></button>
      </div>
    </aside>
    ${conversation && html`<${Chat} key=${conversation.threadId} conversation=${conversation} onSent=${onSent} />`}
    ${view === 'overview' && (me.value?.system_role === 'admin' ? html`<${Later} load=${overview} props=${{}} />` : html`<${NotYours} />`)}
    ${view === 'inbox' && html`<${Later} load=${inbox} props=${{}} />`}
    ${runId && conversation && html`<${Later} load=${inspector} props=${{ conversation, runId, otherId: place.value.view === 'thread' ? place.value.otherId : null }} />`}
    ${isPaletteOpen.value && html`<${Later} load=${palette} props=${{ onClose: () => (isPaletteOpen.value = false), isAccountOpen, areKeysShown }} />`}
    ${isAccountOpen.value && html`<${Later} load=${account} props=${{ onClose: () => (isAccountOpen.value = false) }} />`}
    ${areKeysShown.value && html`<${Later} load=${keys} props=${{ onClose: () => (areKeysShown.value = false) }} />`}
  </div>`
}

/** Past what stands before the composer, for who walks by keys. */
function Skip() {
  return html`<button class="skip plain" onClick=${focusComposer}>Skip to the message</button>`
}

function NotYours() {
  return html`<main class="chat empty"><div class="welcome"><h1>This page is for administrators</h1><p class="lead">Your account has no right to see the overview of this installation.</p><button class="primary" onClick=${() => go('#/')}>Back to your conversations</button></div></main>`
}

const overview = () => import('./overview.ts')
const account = () => import('./account.ts')
const palette = () => import('./palette.ts')
const inbox = () => import('./inbox.ts')
const inspector = () => import('./inspector.ts')
const keys = () => import('./keys.ts')

/** Whether the side is a drawer above the page, as in shell.css. */
const isNarrow = (): boolean => matchMedia('(max-width: 760px)').matches

interface Toggles {
  readonly isSideOpen: { value: boolean }
  readonly areKeysShown: { value: boolean }
  readonly isPaletteOpen: { value: boolean }
}

function onShortcut(event: KeyboardEvent, { isSideOpen, areKeysShown, isPaletteOpen }: Toggles): void {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test((event.target as Element).tagName)
  const isCommand = event.ctrlKey || event.metaKey
  const act = (what: () => void) => {
    event.preventDefault()
    what()
  }
  if (event.key === 'Escape' && isSideOpen.value && isNarrow() && !document.querySelector('dialog[open]'))
    act(() => {
      isSideOpen.value = false
    })
  else if (isCommand && event.key.toLowerCase() === 'k')
    act(() => {
      isPaletteOpen.value = !isPaletteOpen.value
    })
  else if (isCommand && event.shiftKey && event.key.toLowerCase() === 'o') act(() => go('#/'))
  else if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown'))
    act(() => toNeighbour(event.key === 'ArrowDown' ? 1 : -1))
  else if (!isTyping && event.key === '/') act(() => document.getElementById('composer')?.focus())
  else if (!isTyping && event.key === '?')
    act(() => {
      areKeysShown.value = true
    })
}

function toNeighbour(step: 1 | -1): void {
  const { value } = place
  const list = threads.value
  const at = value.view === 'thread' ? list.findIndex(({ thread_id }) => thread_id === value.threadId) : -1
  const next = list[at + step] ?? (at < 0 ? list[0] : undefined)
  if (!next) return
  go(threadLink(next.thread_id))
  void titleOf(next)
}
