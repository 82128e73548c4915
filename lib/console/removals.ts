// What is about to be deleted: until its notice is gone it can be undone, and nothing is sent.
import { signal } from '@preact/signals'
import { ApiError, csrfToken } from '../client/colloquy.ts'
import { BASE } from './base.ts'
import { notify, notifyFailure, UNDO_MS } from './toast.ts'

interface Removal {
  /** What is deleted, in the API. */
  readonly path: string
  /** Its text, English. */
  readonly notice: string
  /** It is deleted. */
  readonly onGone: () => unknown
}

/** Things of one kind, by their ids: those that are about to be deleted are not shown. */
export class Removals {
  readonly #doomed = signal<ReadonlySet<string>>(new Set())

  has(id: string): boolean {
    return this.#doomed.value.has(id)
  }

  /** Deletes it when nobody has undone it for a while, or when the page is left. */
  add(id: string, { path, notice, onGone }: Removal): void {
    const spare = () => {
      this.#doomed.value = new Set([...this.#doomed.value].filter((one) => one !== id))
    }
    const act = () => {
      stop()
      // A page that is being left has no time for an answer.
      const headers = { 'X-CSRF-Token': csrfToken() ?? '' }
      fetch(BASE + path, { method: 'DELETE', headers, keepalive: true })
        .then(async (response) => {
          if (!response.ok && response.status !== 404)
            throw new ApiError(response.status, (await response.json()).detail, null)
          await onGone()
        })
        .catch(notifyFailure)
        .finally(spare)
    }
    const timer = setTimeout(act, UNDO_MS)
    const stop = () => {
      clearTimeout(timer)
      removeEventListener('pagehide', act)
    }
    addEventListener('pagehide', act)
    this.#doomed.value = new Set([...this.#doomed.value, id])
    notify(notice, false, () => {
      stop()
      spare()
    })
  }
}
