// Converts LangGraph's in-memory objects to the JSON its server would send: messages are class instances.
import type { Json } from '../../base/types.ts'

/** @throws TypeError for a circular structure */
export function plainText(value: unknown): string {
  return JSON.stringify(value, messagesAsFields) ?? 'null'
}

export function plain(value: unknown): Json {
  return JSON.parse(plainText(value)) as Json
}

function messagesAsFields(this: unknown, key: string, value: unknown): unknown {
  // `value` is the result of toJSON; the original object is still in its parent.
  const given = (this as Record<string, unknown>)[key]
  if (typeof given === 'object' && given !== null && 'toDict' in given && typeof given.toDict === 'function') {
    const { type, data } = given.toDict() as { type: string; data: object }
    return { ...data, type }
  }
  return typeof value === 'bigint' ? String(value) : value
}
