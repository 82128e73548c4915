// Untrusted JSON: parsed without throwing, and narrowed to what the caller expects.
import { type Json, type JsonObject, isObject } from './types.ts'

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

/** A whole number from 0; 0 for anything else. */
export function countOf(value: Json | undefined): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.floor(value) : 0
}
