// The page's API client, and its handling of ended sessions.
import { ApiError, Colloquy } from '../client/colloquy.ts'

export const colloquy = new Colloquy()

let onSignedOut: () => void = () => {}

/** Told when an answer says that the session is over. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener
}

/** Calls the API. An ended session is reported to the page. */
export async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  try {
    return await colloquy.call<T>(method, path, body, signal)
  } catch (error) {
    noticeSignedOut(error)
    throw error
  }
}

/** Looks whether an error is the end of the session. */
export function noticeSignedOut(error: unknown): void {
  if (error instanceof ApiError && error.status === 401 && error.code !== 'invalid_credentials') onSignedOut()
}

/** What a person is told of an error. */
export function textOf(error: unknown): string {
  if (error instanceof ApiError) return error.message
  return navigator.onLine ? 'The server does not answer.' : 'You are offline.'
}
