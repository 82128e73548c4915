// JSON of strangers: read without throwing, and narrowed before anything is taken out of it.
import { type Json, type JsonObject, isObject } from '../types.ts'

/** The value of a JSON text; undefined: it is none. */
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

/** Null: it is no text. */
export function textOr(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null
}

/** The texts of a list; of anything else none. */
export function textsIn(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}

/** The objects of a list; of anything else none. */
export function objectsIn(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}
