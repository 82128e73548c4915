// A thread that is read by a link: the conversation as it is and grows, and nothing that changes it.
import { useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { ApiError } from '../client/colloquy.ts'
import { call, colloquy, isMissing, textOf } from './api.ts'
import { BASE } from './base.ts'
import { Chat } from './chat.ts'
import { Conversation } from './conversation.ts'
import { html } from './html.ts'
import { place } from './router.ts'
import { beginSignedOut, wantsSession } from './session.ts'
import { notify } from './toast.ts'
import { t } from './words.ts'

const API = `${BASE}/api/`

/** The file behind an address of the thread; a request of the browser's own has no link. */
async function fileAt(path: string): Promise<string> {
  const response = await colloquy.send('GET', path)
  return URL.createObjectURL(await response.blob())
}

function onPicture({ target }: Event): void {
  const path = target instanceof HTMLImageElement ? target.getAttribute('src') : null
  if (!path?.startsWith(API)) return
  // One that is not open by this link stays as broken as it is.
  fileAt(path.slice(BASE.length)).then(
    (url) => Object.assign(target!, { src: url }),
    () => {}
  )
}

function onFile(event: MouseEvent): void {
  const anchor = (event.target as Element).closest<HTMLAnchorElement>(`a[href^="${API}"]`)
  if (!anchor) return
  event.preventDefault()
  const name = decodeURIComponent(anchor.pathname.split('/').at(-1) ?? '')
  fileAt(anchor.pathname.slice(BASE.length)).then(
    (href) => Object.assign(document.createElement('a'), { href, download: name }).click(),
    (error: unknown) => notify(isRefused(error) ? 'Files are not part of this link.' : textOf(error), true)
  )
}

const isRefused = (error: unknown): boolean => error instanceof ApiError && error.status === 403

export function View() {
  const { value } = place
  const id = value.view === 'thread' ? value.threadId : ''
  const problem = useSignal<string | null>(null)
  const conversation = useMemo(() => new Conversation(id, false), [id])
  useEffect(() => {
    call('GET', `/api/threads/${encodeURIComponent(id)}`).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === 'not_authenticated') {
        void beginSignedOut()
        wantsSession.value = true
      } else
        problem.value =
          isMissing(error) || (error instanceof ApiError && error.status === 401)
            ? t('This link does not exist, has expired, or was taken back by whoever made it.')
            : textOf(error)
    })
    // Another link in the same tab is another page.
    const onHash = () => location.reload()
    addEventListener('hashchange', onHash)
    addEventListener('error', onPicture, true)
    addEventListener('click', onFile, true)
    return () => {
      removeEventListener('hashchange', onHash)
      removeEventListener('error', onPicture, true)
      removeEventListener('click', onFile, true)
      conversation.close()
    }
  }, [id])
  useEffect(() => {
    const { value: title } = conversation.shown.title
    document.title = `${title ? `${title} · ` : ''}Colloquy`
  })
  if (problem.value)
    return html`<main class="door"><div class="card"><h1>There is nothing here</h1><p class="lead" role="alert">${problem.value}</p></div></main>`
  return html`<div class="shared">
    <header class="shared-head"><b dir="auto">${conversation.shown.title.value ?? t('A conversation')}</b><span class="hint">Read only</span></header>
    <${Chat} conversation=${conversation} onSent=${() => {}} />
  </div>`
}
