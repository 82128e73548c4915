// The credential of a WebSocket that comes with its first message, for a browser can set no header of an upgrade.
import { Failure } from '../base/errors.ts'
import { parseJson } from './body.ts'
import { takeCredential } from './entry.ts'
import { type Call, HANDLED } from './route.ts'
import { firstMessage, refuseEarly } from './web-socket.ts'

/**
 * Waits for the first message of an upgrade, which says whose it is, and then opens it as if that had come with the request. Where no
 * cookie came, no page can act for its visitor, whatever its origin.
 */
export async function openLate(
  call: Pick<Call, 'req' | 'res'>,
  maxBytes: number,
  log: { error(fields: object, message: string): void },
  open: () => Promise<void>
): Promise<typeof HANDLED> {
  const text = await firstMessage(call, maxBytes)
  if (text === null) return HANDLED
  try {
    takeCredential(call.req, messageIn(text))
    await open()
  } catch (error) {
    const { status, message } = error instanceof Failure ? error : { status: 500, message: 'Internal Server Error' }
    if (!refuseEarly(call.req, closeCodeOf(status), message)) throw error
    if (!(error instanceof Failure)) log.error({ err: error }, 'a WebSocket could not be opened')
  }
  return HANDLED
}

/** JSON, or anything else, which has no credential. */
function messageIn(text: string): unknown {
  try {
    return parseJson(Buffer.from(text))
  } catch {
    return null
  }
}

/** Clients come back at once, or later; not with this credential. */
function closeCodeOf(status: number): number {
  if (status === 401 || status === 403) return 4000 + status
  return status === 429 || status === 503 ? 1013 : 1011
}
