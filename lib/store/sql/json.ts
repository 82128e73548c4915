// JSON in columns the store has written itself.
import type { Json, JsonObject } from '../../base/types.ts'

export function parseObject(text: string): JsonObject {
  // The column is only ever written from a JsonObject.
  return JSON.parse(text) as JsonObject
}

/** The row with members that are parsed when they are read: in a long list most never are. */
export function withObjects<Row extends object, Name extends string>(
  row: Row,
  texts: Readonly<Record<Name, string>>
): Row & Readonly<Record<Name, JsonObject>> {
  for (const [name, text] of Object.entries<string>(texts))
    Object.defineProperty(row, name, { enumerable: true, configurable: true, get: () => parseObject(text) })
  // The members that were just defined.
  return row as Row & Readonly<Record<Name, JsonObject>>
}

export function parseJson(text: string): Json {
  // The text is only ever written from Json.
  return JSON.parse(text) as Json
}
