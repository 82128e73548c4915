// Routing by the URL's hash, so that back, forward, reload and links work.
import { signal } from '@preact/signals'

export type Place =
  | { readonly view: 'new' }
  | {
      readonly view: 'thread'
      readonly threadId: string
      readonly runId: string | null
      readonly otherId: string | null
    }
  | { readonly view: 'overview' }

export const place = signal<Place>(read())

function read(): Place {
  const [view, id, what, runId, otherId] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent)
  if (view === 't' && id) {
    const isRun = what === 'r' && runId
    return { view: 'thread', threadId: id, runId: isRun ? runId : null, otherId: isRun && otherId ? otherId : null }
  }
  return view === 'overview' ? { view: 'overview' } : { view: 'new' }
}

addEventListener('hashchange', () => {
  place.value = read()
})

export function threadLink(threadId: string, runId?: string): string {
  return `#/t/${encodeURIComponent(threadId)}${runId ? `/r/${encodeURIComponent(runId)}` : ''}`
}

export function go(hash: string): void {
  if (location.hash === hash) return
  location.hash = hash
}
