// The Idempotency-Key of a request that creates a run: however often it is sent, it makes one run [design 5].
import { createHash } from 'node:crypto'
import { Invalid } from '../errors.ts'
import type { Call } from '../http/call.ts'
import { issue } from '../http/schema.ts'

const KEY_MAX = 255

/** The key, if the request carries one. @throws Invalid when it is too long */
export function keyOf({ req }: Call): string | null {
  const key = req.headers['idempotency-key']
  if (typeof key !== 'string' || key === '') return null
  if (key.length > KEY_MAX)
    throw new Invalid([issue('string_too_long', ['header', 'Idempotency-Key'], { max_length: KEY_MAX })])
  return key
}

/**
 * The id of the new thread of a run that names none. It follows from the key, so that a repeated request finds the thread of the
 * first one and leaves no empty thread of its own.
 */
export function threadIdFor(userId: string, key: string): string {
  const digest = createHash('sha256').update(userId).update('\n').update(key).digest()
  // The marks of a UUID of version 8: made by rules of our own.
  digest[6] = (digest[6]! & 0x0f) | 0x80
  digest[8] = (digest[8]! & 0x3f) | 0x80
  return digest.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
