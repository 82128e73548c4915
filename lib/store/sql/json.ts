// JSON in columns the store has written itself.
import type { Json, JsonObject } from '../../types.ts'

export function parseObject(text: string): JsonObject {
  // The column is only ever written from a JsonObject.
  return JSON.parse(text) as JsonObject
}

export function parseJson(text: string): Json {
  // The text is only ever written from Json.
  return JSON.parse(text) as Json
}
