// JSON of strangers: parsed without throwing and narrowed to what the caller expects, its shape counted while it arrives, and without lone surrogates.
import { isObject, type Json, type JsonObject } from './types.ts'

/** undefined: not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function objectOr(value: Json | undefined, fallback: JsonObject = {}): JsonObject {
  return isObject(value) ? value : fallback
}

/** null: not a string. */
export function textOr(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null
}

/** The strings in a list; none if it is not a list. */
export function textsIn(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}

/** The objects in a list; none if it is not a list. */
export function objectsIn(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** Whether each wanted member has exactly the wanted value. */
export function hasMembers(given: JsonObject, wanted: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(wanted).every(([key, value]) => JSON.stringify(given[key]) === JSON.stringify(value))
}

/** A whole number from 0; 0 for anything else. */
export function countOf(value: Json | undefined): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.floor(value) : 0
}

// ----------------------------------------------------------------------------------------------------
// The shape of JSON that a stranger sends: how many values and levels it has, counted while its bytes arrive and before any of it is
// made.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKETS_OPEN: ReadonlySet<number> = new Set([0x5b, 0x7b])
const BRACKETS_CLOSE: ReadonlySet<number> = new Set([0x5d, 0x7d])

/** Counts with a scan that neither recurses nor allocates. */
export class JsonShape {
  values = 1
  /** Levels of its deepest value. */
  levels = 0
  #depth = 0
  #isInText = false
  #isEscaped = false

  /** The next bytes, cut wherever they were. */
  feed(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#isInText) at = this.#readText(bytes, at)
      else this.#count(bytes[at++]!)
    }
  }

  #count(byte: number): void {
    if (byte === QUOTE) this.#isInText = true
    else if (byte === COMMA) this.values++
    else if (BRACKETS_OPEN.has(byte)) {
      this.values++
      this.levels = Math.max(this.levels, ++this.#depth)
    } else if (BRACKETS_CLOSE.has(byte)) this.#depth--
  }

  // Long strings are most of a large body: let indexOf skip them.
  #readText(bytes: Uint8Array, at: number): number {
    const from = this.#isEscaped ? at + 1 : at
    this.#isEscaped = false
    for (let end = bytes.indexOf(QUOTE, from); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
      if (isEscapedAt(bytes, from, end)) continue
      this.#isInText = false
      return end + 1
    }
    this.#isEscaped = isEscapedAt(bytes, from, bytes.length)
    return bytes.length
  }
}

/** Whether an odd number of backslashes stands before it. */
function isEscapedAt(bytes: Uint8Array, from: number, end: number): boolean {
  let before = end - 1
  while (before >= from && bytes[before] === BACKSLASH) before--
  return (end - 1 - before) % 2 === 1
}

// ----------------------------------------------------------------------------------------------------
// Replaces lone surrogates by U+FFFD: they have no UTF-8 form, and strict JSON parsers refuse everything around them. Done where texts
// come in and, for older data, where they go out.

/** Matches an escaped pair, or half of one. If its backslash is itself escaped, it is neither. */
const SURROGATES = /\\u[dD](?:[89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[89a-fA-F][\da-fA-F]{2})/g
const HALF_LENGTH = '\\ud800'.length
const BACKSLASH_CHAR = '\\'

/** JSON text without escaped lone surrogates. Most texts have none, and are scanned once. */
export function wellFormedJson(text: string): string {
  let clean = ''
  let taken = 0
  SURROGATES.lastIndex = 0
  for (let found = SURROGATES.exec(text); found; found = SURROGATES.exec(text)) {
    const at = found.index
    let before = at
    while (text[before - 1] === BACKSLASH_CHAR) before--
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
