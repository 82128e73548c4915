// The sidebar's thread list: infinite scroll, search, and actions on each.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { classes, html, Icon } from './html.ts'
import { Later } from './later.ts'
import { place, threadLink } from './router.ts'
import {
  archive,
  askSharing,
  canShare,
  found,
  foundTotal,
  isArchived,
  hasMore,
  isPinned,
  isSearching,
  loadMore,
  pin,
  query,
  shownFound,
  type Thread,
  threads,
  titleOf,
  total
} from './threads.ts'
import { ago, count, dayOf } from './time.ts'
import { notifyFailure } from './toast.ts'
import { t } from './words.ts'

export function ThreadList() {
  const list = useRef<HTMLElement>(null)
  /** The one entry that Tab stops at; arrows lead to the others. */
  const stop = useSignal<string | null>(null)
  const menu = useSignal<string | null>(null)
  const renaming = useSignal<Thread | null>(null)
  const deleting = useSignal<Thread | null>(null)
  const shared = useSignal<Thread | null>(null)
  const shown = query.value ? shownFound.value : threads.value

  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = list.current!
    if (!query.value && scrollHeight - scrollTop - clientHeight < 400) void loadMore()
  }
  useEffect(() => {
    const close = () => {
      menu.value = null
    }
    addEventListener('click', close)
    return () => removeEventListener('click', close)
  }, [])

  const openId = place.value.view === 'thread' ? place.value.threadId : null
  const isShown = (id: string | null) => shown.some(({ thread_id }) => thread_id === id)
  const stopId = [stop.value, openId].find(isShown) ?? shown[0]?.thread_id
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return
    const links = [...list.current!.querySelectorAll<HTMLElement>('.thread > a')]
    const at = links.findIndex((link) => link.parentElement?.contains(document.activeElement))
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key]
    if (at < 0 || next === undefined) return
    event.preventDefault()
    links[Math.max(0, next)]?.focus()
  }
  const onFocus = (event: FocusEvent) => {
    const entry = (event.target as Element).closest('[data-thread]')
    if (entry) stop.value = entry.getAttribute('data-thread')
  }

  return html`<nav class="threads" ref=${list} onScroll=${onScroll} onKeyDown=${onKeyDown} onFocusCapture=${onFocus} aria-label="Conversations">
      ${query.value && html`<p class="hint">${isSearching.value ? t('Searching…') : foundText()}</p>`}
      ${!query.value && shown.length === 0 && total.value === 0 && html`<p class="hint">Your conversations will be listed here.</p>`}
      <ul>
        ${shown.map(
          (
            thread,
            i
          ) => html`${groupOf(thread) !== groupOf(shown[i - 1]) && !query.value && html`<li key=${`g${groupOf(thread)}`} class="when">${groupOf(thread)}</li>`}<${Item}
            key=${thread.thread_id}
            thread=${thread}
            isOpen=${openId === thread.thread_id}
            isStop=${stopId === thread.thread_id}
            menu=${menu}
            onRename=${() => {
              renaming.value = thread
            }}
            onShare=${() => {
              shared.value = thread
            }}
            onDelete=${() => {
              deleting.value = thread
            }}
          />`
        )}
      </ul>
      ${query.value && html`<${Later} load=${hits} props=${{ known: new Set(shown.map(({ thread_id }) => thread_id)) }} />`}
      ${!query.value && hasMore.value && html`<button class="plain wide" tabindex="-1" onClick=${() => void loadMore()}>More</button>`}
    </nav>
    ${shared.value && html`<${Later} load=${sharing} props=${{ thread: shared.value, onClose: () => (shared.value = null) }} />`}
    ${renaming.value && html`<${Later} load=${renames} props=${{ thread: renaming.value, onClose: () => (renaming.value = null) }} />`}
    ${deleting.value && html`<${Later} load=${deletes} props=${{ thread: deleting.value, onClose: () => (deleting.value = null) }} />`}`
}

function toFile(thread: Thread, form: 'markdown' | 'json'): void {
  import('./transfer.ts').then(({ exportThread }) => exportThread(thread, form)).catch(notifyFailure)
}

const hits = () => import('./hits.ts')
const sharing = () => import('./sharing.ts')
const renames = () => import('./thread-dialogs.ts').then(({ Rename }) => ({ View: Rename }))
const deletes = () => import('./thread-dialogs.ts').then(({ Delete }) => ({ View: Delete }))

/** How many titles were found, and of how many where not all are listed. Messages that were found have a heading of their own. */
function foundText(): string {
  const [listed, all] = [found.value.length, foundTotal.value]
  if (listed === 0) return t('No title has these words.')
  return t('{} found', listed < all ? t('{} of {}', listed, count(all)) : listed)
}

/** The heading under which a thread stands. */
function groupOf(thread: Thread | undefined): string {
  if (!thread) return ''
  return isPinned(thread) ? t('Pinned') : dayOf(thread.updated_at)
}

interface ItemProps {
  readonly thread: Thread
  readonly isOpen: boolean
  /** Whether Tab stops at it. */
  readonly isStop: boolean
  readonly menu: { value: string | null }
  readonly onRename: () => void
  readonly onShare: () => void
  readonly onDelete: () => void
}

function Item({ thread, isOpen, isStop, menu, onRename, onShare, onDelete }: ItemProps) {
  const id = thread.thread_id
  const isMenuOpen = menu.value === id
  const title = titleOf(thread)
  const box = useRef<HTMLLIElement>(null)
  const items = () => [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
  const close = () => {
    menu.value = null
    box.current?.querySelector<HTMLElement>('.more')?.focus()
  }
  const choose = (what: () => void) => (event: MouseEvent) => {
    event.stopPropagation()
    close()
    what()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isMenuOpen) return
    if (event.key === 'Tab') return close()
    const all = items()
    const at = all.indexOf(document.activeElement as HTMLElement)
    const next = { ArrowDown: at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 }[event.key]
    if (next === undefined && event.key !== 'Escape') return
    event.preventDefault()
    // Escape would also stop the answer.
    event.stopPropagation()
    if (next === undefined) close()
    else all.at(next % all.length)?.focus()
  }
  useEffect(() => {
    if (!isMenuOpen) return
    askSharing()
    items()[0]?.focus()
  }, [isMenuOpen])
  const tabindex = isStop ? 0 : -1
  return html`<li ref=${box} data-thread=${id} class=${classes('thread', isOpen && 'open')} onKeyDown=${onKeyDown}>
    <a href=${threadLink(id)} tabindex=${tabindex} aria-current=${isOpen ? 'page' : undefined}>
      ${isPinned(thread) && html`<${Icon} name="pin" />`}
      <span class="title" dir="auto">${title}</span>
      ${
        thread.status === 'running'
          ? html`<span class="dot" role="img" aria-label="answering"></span>`
          : thread.status === 'interrupted'
            ? html`<span class="dot asks" role="img" aria-label="asks you something"></span>`
            : html`<time datetime=${thread.updated_at}>${ago(thread.updated_at)}</time>`
      }
    </a>
    <button class="quiet more" tabindex=${tabindex} aria-label=${t('Actions for {}', title)} aria-haspopup="menu" aria-expanded=${isMenuOpen} onClick=${(
      event: MouseEvent
    ) => {
      event.stopPropagation()
      menu.value = isMenuOpen ? null : id
    }}><${Icon} name="more" /></button>
    ${
      isMenuOpen &&
      html`<div class="menu" role="menu">
        <button role="menuitem" onClick=${choose(() => void pin(thread, !isPinned(thread)).catch(notifyFailure))}><${Icon} name="pin" /> ${isPinned(thread) ? t('Unpin') : t('Pin')}</button>
        <button role="menuitem" onClick=${choose(onRename)}><${Icon} name="pen" /> Rename</button>
        <button role="menuitem" onClick=${choose(() => void archive(thread, !isArchived(thread)).catch(notifyFailure))}><${Icon} name="box" /> ${isArchived(thread) ? t('Take out of the archive') : t('Archive')}</button>
        ${canShare.value && html`<button role="menuitem" onClick=${choose(onShare)}><${Icon} name="open" /> Share</button>`}
        <button role="menuitem" onClick=${choose(() => toFile(thread, 'markdown'))}><${Icon} name="save" /> Export as Markdown</button>
        <button role="menuitem" onClick=${choose(() => toFile(thread, 'json'))}><${Icon} name="save" /> Export as JSON</button>
        <button role="menuitem" class="bad" onClick=${choose(onDelete)}><${Icon} name="bin" /> Delete</button>
      </div>`
    }
  </li>`
}
