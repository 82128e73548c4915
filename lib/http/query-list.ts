// Values of a query that may be given more than once.
import type { Call } from './call.ts'

export function searchParams({ req }: Call): URLSearchParams {
  const url = req.url ?? ''
  const at = url.indexOf('?')
  return new URLSearchParams(at < 0 ? '' : url.slice(at + 1))
}

/** A list in the query: repeated, comma-separated or a JSON list, depending on the client's version. */
export function listIn(call: Call, name: string): string[] | null {
  const given = searchParams(call).getAll(name).flatMap(readList)
  return given.length ? given : null
}

function readList(text: string): string[] {
  if (!text.startsWith('['))
    return text
      .split(',')
      .map((name) => name.trim())
      .filter(Boolean)
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) ? list.filter((name) => typeof name === 'string') : []
  } catch {
    return []
  }
}
