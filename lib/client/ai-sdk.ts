// For chats of the AI SDK: a fetch whose streams survive a cut. It comes back behind the last whole chunk, so that no chunk comes twice.
// Only what is stored is shown: a crash of the server takes none of it back.
//
//   new DefaultChatTransport({ api: '/api/ai/chat', fetch: exactFetch() })

import { type ApiError, isFinal, refusalOf } from './api-error.ts'
import { CONNECT_MS, grownMs, silenceMsOf, Watchdog } from './silence.ts'

export interface ExactFetchOptions {
  readonly fetch?: typeof fetch
  /** Attempts in a row that bring nothing, until the chat is told of the cut. */
  readonly attempts?: number
  /** Before the first of them, in ms; each waits twice as long as the one before. */
  readonly waitMs?: number
}

const WAIT_MAX_MS = 10_000

/** Of a transport: the answer to a message goes on behind a cut, from the chunk that came last. */
export function exactFetch({ fetch: ask = fetch, attempts = 8, waitMs = 250 }: ExactFetchOptions = {}): typeof fetch {
  return async (input, init = {}) => {
    const signal = init.signal ?? undefined
    const watched = async (url: typeof input, given: RequestInit, watchdog: Watchdog): Promise<Watched> => {
      try {
        const response = await ask(url, { ...given, signal: watchdog.signal })
        watchdog.restart(silenceMsOf(response))
        return { response, watchdog }
      } catch (error) {
        watchdog.stop()
        throw error
      }
    }
    const chat = chatOf(String(input), init)
    const first = await watched(input, storedFirst(init), new Watchdog(null, signal))
    const { response } = first
    if (!response.ok || !response.body || !chat) {
      first.watchdog.restart(null)
      return response
    }
    const comeBack = (last: string | null) => {
      const headers = new Headers(init.headers)
      headers.delete('content-type')
      if (last !== null) headers.set('last-event-id', last)
      return watched(chat, { ...init, method: 'GET', body: null, headers }, new Watchdog(CONNECT_MS, signal))
    }
    const pieces = wholeEvents(first, comeBack, { attempts, waitMs, signal: init.signal ?? null })
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) =>
        pieces.next().then(
          ({ done, value }) => (done ? controller.close() : controller.enqueue(value)),
          (error: unknown) => controller.error(error)
        ),
      cancel: () => pieces.return(undefined).then(() => {})
    })
    return new Response(body, { status: response.status, headers: response.headers })
  }
}

/** Where the answer to a message is read again; null: no message is sent. */
function chatOf(url: string, { method, body }: RequestInit): string | null {
  if (method !== 'POST') return url
  // What the transport has written.
  const { id } = JSON.parse(String(body)) as { readonly id?: unknown }
  const end = url.search(/[?#]|$/)
  return typeof id === 'string' ? `${url.slice(0, end)}/${encodeURIComponent(id)}/stream${url.slice(end)}` : null
}

/** A message whose answer is stored before it is shown, if the chat has not said otherwise. */
function storedFirst(init: RequestInit): RequestInit {
  if (init.method !== 'POST' || typeof init.body !== 'string') return init
  // What the transport has written.
  return { ...init, body: JSON.stringify({ durability: 'sync', ...(JSON.parse(init.body) as object) }) }
}

interface Patience extends Required<Pick<ExactFetchOptions, 'attempts' | 'waitMs'>> {
  readonly signal: AbortSignal | null
}

/** A response whose silence is noticed. */
interface Watched {
  readonly response: Response
  readonly watchdog: Watchdog
}

/** Events up to `[DONE]`, each passed on when it is whole. */
async function* wholeEvents(
  first: Watched,
  comeBack: (last: string | null) => Promise<Watched>,
  { attempts, waitMs, signal }: Patience
): AsyncGenerator<Uint8Array, undefined> {
  let last: string | null = null
  let from: Watched | null = first
  /** What the server has asked for before the next attempt, in ms. */
  let askedMs = 0
  for (let failures = 0; ; failures++) {
    const reader = from?.response.body?.getReader()
    const decoder = new TextDecoder()
    let rest = ''
    try {
      for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
        from?.watchdog.restart()
        rest += decoder.decode(read.value, { stream: true })
        const end = rest.lastIndexOf('\n\n') + 2
        if (end < 2) continue
        const events = rest.slice(0, end)
        rest = rest.slice(end)
        last = [...events.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? last
        failures = 0
        yield new TextEncoder().encode(events)
        if (/^data: \[DONE\]$/m.test(events)) return
      }
    } catch (error) {
      if (signal?.aborted) throw error
    } finally {
      from?.watchdog.stop()
      reader?.cancel().catch(() => {})
    }
    // The AI SDK takes an error of the network for a cut.
    if (failures >= attempts) throw new TypeError('network error: the answer was cut')
    await pause(Math.max(askedMs, grownMs(failures, waitMs, WAIT_MAX_MS)), signal)
    signal?.throwIfAborted()
    from = await comeBack(last).catch(() => null)
    const again: Response | undefined = from?.response
    if (again?.status === 204) return
    const refusal: ApiError | null = again && !again.ok ? await refusalOf(again) : null
    askedMs = refusal?.retryAfterMs ?? 0
    if (!refusal) continue
    from?.watchdog.stop()
    from = null
    if (isFinal(refusal)) throw new Error(`The answer cannot be read again: ${refusal.status}`)
  }
}

/** Until the time is over, or nobody waits any more. */
function pause(ms: number, signal: AbortSignal | null): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
  })
}
