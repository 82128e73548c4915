// The palette: threads and commands by a few of their letters, under Ctrl K.
import type { Signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Dialog } from './dialog.ts'
import { classes, html, Icon } from './html.ts'
import { type Hit, hitsBeside, linkOf, nameOfHit, Snippet, Unread } from './hits.ts'
import { go, threadLink } from './router.ts'
import { me } from './session.ts'
import { setTheme } from './theme.ts'
import { find, found, isSearching, query, threads, titleOf } from './threads.ts'
import { t } from './words.ts'

interface Entry {
  readonly id: string
  readonly icon: string
  readonly name: string
  readonly hint: string
  /** Where the words are in a message. */
  readonly hit?: Hit
  readonly act: () => void
}

interface PaletteProps {
  readonly onClose: () => void
  readonly isAccountOpen: Signal<boolean>
  readonly areKeysShown: Signal<boolean>
}

const THREADS_MAX = 8
const TEXTS_MAX = 12

export function View({ onClose, isAccountOpen, areKeysShown }: PaletteProps) {
  const [words, setWords] = useState('')
  const [at, setAt] = useState(0)
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => () => void find(''), [])
  const commands = commandsOf({ isAccountOpen, areKeysShown }).filter(({ name }) => holds(name, words))
  const shown = (query.value ? found.value : threads.value).slice(0, THREADS_MAX)
  const known = new Set(shown.map(({ thread_id }) => thread_id))
  const texts = words ? hitsBeside(known) : []
  const entries: readonly Entry[] = [
    ...(words ? [] : commands.slice(0, 1)),
    ...shown.map((thread) => ({
      id: thread.thread_id,
      icon: thread.status === 'interrupted' ? 'ask' : 'file',
      name: titleOf(thread),
      hint: '',
      act: () => go(threadLink(thread.thread_id))
    })),
    ...(words ? commands : commands.slice(1)),
    ...texts.slice(0, TEXTS_MAX).map((hit) => ({
      id: `${hit.thread_id} ${hit.message_id}`,
      icon: 'search',
      name: nameOfHit(hit),
      hint: '',
      hit,
      act: () => go(linkOf(hit))
    }))
  ]
  const current = Math.min(at, entries.length - 1)
  const choose = (entry: Entry | undefined) => {
    if (!entry) return
    onClose()
    entry.act()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    const next = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: -1 }[event.key]
    if (event.key === 'Enter') choose(entries[current])
    if (next === undefined || entries.length === 0) return
    event.preventDefault()
    setAt((next + entries.length) % entries.length)
  }
  useEffect(() => list.current?.children[current]?.scrollIntoView({ block: 'nearest' }), [current])
  return html`<${Dialog} title="Search and commands" onClose=${onClose} isWide isBare>
    <div class="palette" onKeyDown=${onKeyDown}>
      <label class="search"><${Icon} name="search" /><input id="palette" type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${current < 0 ? undefined : `palette-${current}`} aria-label="Search and commands" placeholder="Search conversations, or do something" autofocus value=${words} onInput=${(
        event: InputEvent
      ) => {
        const { value } = event.currentTarget as HTMLInputElement
        setWords(value)
        setAt(0)
        void find(value)
      }} /></label>
      <ul ref=${list} id="palette-list" role="listbox" aria-label="Results">
        ${entries.map(
          (
            { id, icon, name, hint, hit, act },
            i
          ) => html`<li key=${id} id=${`palette-${i}`} role="option" aria-selected=${i === current} class=${classes(i === current && 'on')} onMouseMove=${() => setAt(i)} onClick=${() => choose({ id, icon, name, hint, act })}>
            <${Icon} name=${icon} /><span dir="auto">${name}</span>${hit && html`<${Snippet} hit=${hit} />`}${hint && html`<kbd>${hint}</kbd>`}
          </li>`
        )}
      </ul>
      ${entries.length === 0 && html`<p class="hint">${isSearching.value ? t('Searching…') : t('Nothing has these letters.')}</p>`}
      ${words && html`<${Unread} />`}
    </div>
  <//>`
}

const holds = (name: string, words: string): boolean =>
  words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => name.toLowerCase().includes(word))

function commandsOf({ isAccountOpen, areKeysShown }: Omit<PaletteProps, 'onClose'>): Entry[] {
  const command = (icon: string, name: string, act: () => void, hint = ''): Entry => ({
    id: name,
    icon,
    name,
    hint,
    act
  })
  const open = (what: Signal<boolean>) => () => {
    what.value = true
  }
  return [
    command('plus', t('New conversation'), () => go('#/'), 'Ctrl Shift O'),
    command('ask', t('What waits for you'), () => go('#/inbox')),
    command('moon', t('Theme: dark'), () => setTheme('dark')),
    command('sun', t('Theme: light'), () => setTheme('light')),
    command('gauge', t('Theme: as the system'), () => setTheme('system')),
    command('user', t('Account and settings'), open(isAccountOpen)),
    command('key', t('Keys'), open(areKeysShown), '?'),
    ...(me.value?.system_role === 'admin' ? [command('gauge', t('Overview'), () => go('#/overview'))] : [])
  ]
}
