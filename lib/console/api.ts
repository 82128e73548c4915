// The page's API client, and its handling of ended sessions.
import { ApiError, Colloquy, csrfToken, type Sending } from '../client/colloquy.ts'
import { BASE } from './base.ts'
import { duration } from './time.ts'
import { liveStream } from './live.ts'
import { t, serverWords } from './words.ts'

let onSignedOut: () => void = () => {}

/** Called when an answer shows that the session has ended. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener
}

/** The secret of the link by which this page reads one thread, and nothing else; null: it is somebody's own. */
export const link = /^#\/shared\/[^/]+\/([^/]+)/.exec(location.hash)?.[1] ?? null

/** A call on which nothing arrives for this long is given up, in ms: somebody waits in front of the page. */
const TIMEOUT_MS = 15_000

/** Reports an ended session to the page, whichever call finds it. */
class PageClient extends Colloquy {
  /** How a run's stream is opened: over the page's one connection, or over one of its own. */
  readonly #open: typeof liveStream

  constructor(open: typeof liveStream) {
    super({ url: BASE, timeoutMs: TIMEOUT_MS })
    this.#open = open
  }

  override async send(method: string, path: string, sending?: Sending): Promise<Response> {
    if (link !== null)
      return super.send(method, path, { ...sending, headers: { ...sending?.headers, 'X-Share-Link': link } })
    const session = csrfToken()
    try {
      return await this.#open(method, path, sending?.signal, (...given) =>
        super.send(
          ...given,
          given[0] === method && given[1] === path ? sending : sending?.signal ? { signal: sending.signal } : {}
        )
      )
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status === 401 && error.code !== 'invalid_credentials'
      // A late refusal of the session before says nothing of this one.
      if (isRefused && csrfToken() === session) onSignedOut()
      throw error
    }
  }
}

export const colloquy = new PageClient(liveStream)
/** For a look at a run beside the one that is followed. */
export const beside = new PageClient((method, path, _, send) => send(method, path))

export function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return colloquy.call<T>(method, path, body, signal)
}

/** An error as a sentence for the user. */
export function textOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 403 && /^Permission denied\b/.test(error.message))
    return t('You have no right to do this. An administrator of this installation can give it.')
  if (error instanceof ApiError && error.status === 429 && error.retryAfterMs)
    return `${serverWords(error.message).replace(/[.!。]?$/, '.')} ${t('It can be tried again in {}.', duration(error.retryAfterMs))}`
  if (error instanceof ApiError) return serverWords(error.message)
  return navigator.onLine ? t('The server does not answer.') : t('You are offline.')
}

/** Whether this installation does not have what was asked for. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 501 || error.status === 404)
}

/** Whether a thread does not exist, for this user at least. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 422)
}
