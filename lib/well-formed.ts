// Half a surrogate pair is no text: no UTF-8 has it, and strict readers of JSON refuse all that it stands in. It becomes U+FFFD where
// texts come in, and, for what was stored before that was so, where they go out.
import type { Json } from './types.ts'

/** A whole pair, a half, or any other escape: each is taken whole, so that a backslash is never taken for the one before it. */
const ESCAPES = /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[dD][89a-fA-F][\da-fA-F]{2}|[\s\S])/g
const HALF_LENGTH = '\\ud800'.length

/** JSON text without escapes of halves. Most texts have none, and are looked through once. */
export function wellFormedJson(text: string): string {
  if (!text.includes('\\u')) return text
  return text.replace(ESCAPES, (found) => (found.length === HALF_LENGTH ? '\ufffd' : found))
}

/** The same value, if nothing in it is to be changed; else a copy. */
export function wellFormed<T extends Json | object>(value: T): T {
  // What it gives back differs in characters of texts alone.
  return clean(value) as T
}

function clean(value: unknown): unknown {
  if (typeof value === 'string') return value.isWellFormed() ? value : value.toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items = value.map(clean)
    return items.some((item, at) => item !== value[at]) ? items : value
  }
  let isChanged = false
  const entries = Object.entries(value).map(([key, inner]) => {
    const [name, cleaned] = [key.isWellFormed() ? key : key.toWellFormed(), clean(inner)]
    isChanged ||= name !== key || cleaned !== inner
    return [name, cleaned]
  })
  return isChanged ? Object.fromEntries(entries) : value
}
