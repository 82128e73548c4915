// Short notices at the edge of the page that go away by themselves.
import { signal } from '@preact/signals'
import { say } from './announce.ts'
import { textOf } from './api.ts'
import { html } from './html.ts'

interface Notice {
  readonly id: number
  readonly text: string
  readonly isError: boolean
}

const notices = signal<readonly Notice[]>([])
const SHOWN_MS = 5000
let count = 0

export function notify(text: string, isError = false): void {
  const id = count++
  notices.value = [...notices.value, { id, text, isError }]
  say(text)
  setTimeout(() => {
    notices.value = notices.value.filter((notice) => notice.id !== id)
  }, SHOWN_MS)
}

export function notifyFailure(error: unknown): void {
  notify(textOf(error), true)
}

export function Toasts() {
  return html`<div class="toasts">
    ${notices.value.map(({ id, text, isError }) => html`<div key=${id} class=${isError ? 'toast bad' : 'toast'}>${text}</div>`)}
  </div>`
}
