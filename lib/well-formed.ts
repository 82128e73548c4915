// Replaces lone surrogates by U+FFFD: they have no UTF-8 form, and strict JSON parsers refuse everything around them.
// Done where texts come in and, for older data, where they go out.
import type { Json } from './types.ts'

/** Matches a pair, a half, or any other escape as a whole, so that a backslash is never taken for the one before it. */
const ESCAPES = /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[dD][89a-fA-F][\da-fA-F]{2}|[\s\S])/g
const HALF_LENGTH = '\\ud800'.length

/** JSON text without escaped lone surrogates. Most texts have none, and are scanned once. */
export function wellFormedJson(text: string): string {
  if (!text.includes('\\u')) return text
  return text.replace(ESCAPES, (found) => (found.length === HALF_LENGTH ? '\ufffd' : found))
}

/** The same value if unchanged; else a copy. */
export function wellFormed<T extends Json | object>(value: T): T {
  // Only characters of strings change.
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
