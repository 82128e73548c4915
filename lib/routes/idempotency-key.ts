// The Idempotency-Key header: however often a request is sent, it creates one run [design 5].
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
