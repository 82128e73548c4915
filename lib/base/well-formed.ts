// Replaces lone surrogates by U+FFFD: they have no UTF-8 form, and strict JSON parsers refuse everything around them.
// Done where texts come in and, for older data, where they go out.
import type { Json } from './types.ts'

/** Matches an escaped pair, or half of one. If its backslash is itself escaped, it is neither. */
const SURROGATES = /\\u[dD](?:[89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[89a-fA-F][\da-fA-F]{2})/g
const HALF_LENGTH = '\\ud800'.length
const BACKSLASH = '\\'

/** JSON text without escaped lone surrogates. Most texts have none, and are scanned once. */
export function wellFormedJson(text: string): string {
  let clean = ''
  let taken = 0
  SURROGATES.lastIndex = 0
  for (let found = SURROGATES.exec(text); found; found = SURROGATES.exec(text)) {
    const at = found.index
    let before = at
    while (text[before - 1] === BACKSLASH) before--
    const isEscaped = (at - before) % 2 === 1
    if (isEscaped) SURROGATES.lastIndex = at + 2
    else if (found[0].length === HALF_LENGTH) {
      clean += `${text.slice(taken, at)}\ufffd`
      taken = SURROGATES.lastIndex
    }
  }
  return taken === 0 ? text : clean + text.slice(taken)
}

/** The same value if unchanged; else a copy. */
export function wellFormed<T extends Json | object>(value: T): T {
  // Only characters of strings change.
  return isClean(value) ? value : (clean(value) as T)
}

/** Nearly always, and found out without making anything. */
function isClean(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) return value.every(isClean)
  for (const key in value) {
    // Any object can be asked for any member.
    if (!key.isWellFormed() || !isClean((value as Record<string, unknown>)[key])) return false
  }
  return true
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
