// Short notices at the edge of the page that go away by themselves.
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { say } from './announce.ts'
import { textOf } from './api.ts'
import { html } from './html.ts'
import { t } from './words.ts'

interface Notice {
  readonly id: number
  readonly text: string
  readonly isError: boolean
  readonly undo: (() => void) | null
}

const notices = signal<readonly Notice[]>([])
const SHOWN_MS = 5000
export const UNDO_MS = 6000
let count = 0

/** `undo`: offered for as long as it is shown. */
export function notify(text: string, isError = false, undo: (() => void) | null = null): void {
  const id = count++
  const words = t(text)
  notices.value = [...notices.value, { id, text: words, isError, undo }]
  say(words)
  setTimeout(() => close(id), undo ? UNDO_MS : SHOWN_MS)
}

function close(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id)
}

export function notifyFailure(error: unknown): void {
  notify(textOf(error), true)
}

/** Where notices may stand: the page, and above it the dialogs that are open. Of what is behind a dialog nothing can be pressed. */
const places = signal<readonly object[]>([])

export function Toasts() {
  const [place] = useState({})
  useEffect(() => {
    places.value = [...places.value, place]
    return () => {
      places.value = places.value.filter((one) => one !== place)
    }
  }, [])
  if (places.value.at(-1) !== place) return null
  return html`<div class="toasts">
    ${notices.value.map(
      ({ id, text, isError, undo }) => html`<div key=${id} class=${isError ? 'toast bad' : 'toast'}>
        ${text}
        ${
          undo &&
          html` <button class="link" onClick=${() => {
            close(id)
            undo()
          }}>Undo</button>`
        }
      </div>`
    )}
  </div>`
}
