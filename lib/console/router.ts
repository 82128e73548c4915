// Routing by the URL's hash, so that back, forward, reload and links work.
import { signal } from '@preact/signals'

type Place =
  | { readonly view: 'new' }
  | {
      readonly view: 'thread'
      readonly threadId: string
      readonly runId: string | null
      readonly otherId: string | null
      /** The message to be shown; null: the newest. */
      readonly messageId: string | null
    }
  | { readonly view: 'overview' }
  | { readonly view: 'inbox' }

export const place = signal<Place>(read())

function read(): Place {
  const [view, id, what, runId, otherId] = parts()
  if ((view === 't' || view === 'shared') && id) {
    const isRun = what === 'r' && runId
    const messageId = what === 'm' && runId ? runId : null
    return {
      view: 'thread',
      threadId: id,
      runId: isRun ? runId : null,
      otherId: isRun && otherId ? otherId : null,
      messageId
    }
  }
  return view === 'overview' || view === 'inbox' ? { view } : { view: 'new' }
}

function parts(): readonly string[] {
  try {
    return location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent)
  } catch {
    // Not a URL of ours.
    return []
  }
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
