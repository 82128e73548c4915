// The page's API client, and its handling of ended sessions.
import { ApiError, Colloquy } from '../client/colloquy.ts'

export const colloquy = new Colloquy()

let onSignedOut: () => void = () => {}

/** Called when an answer shows that the session has ended. */
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

/** Reports an error that means that the session has ended. */
export function noticeSignedOut(error: unknown): void {
  if (error instanceof ApiError && error.status === 401 && error.code !== 'invalid_credentials') onSignedOut()
}

/** An error as a sentence for the user. */
export function textOf(error: unknown): string {
  if (error instanceof ApiError) return error.message
  return navigator.onLine ? 'The server does not answer.' : 'You are offline.'
}
