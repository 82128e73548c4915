// Request headers that graphs find in their configuration, under the names that LangGraph's server gives them, as langgraph.json wants it.
import type { Call } from '../../http/route.ts'
import type { JsonObject } from '../../base/types.ts'

/** What is passed on when the project names no headers: nothing that proxies add. */
const BY_DEFAULT = /^(x-(?!real-ip$|forwarded-).+|user-agent)$/
/** Credentials are never passed on, whatever the project says: configurations are stored with their runs, and shown. */
const CREDENTIAL = /^((proxy-)?authorization|cookie|x-(api-key|tenant-id|service-key|csrf-token)|sec-websocket-.+)$/
/** Keys the runtime sets itself; the other reserved ones are dropped together with those of the body. */
const PLACE = /^(thread|run|graph|assistant)_id$/

export class ConfigurableHeaders {
  readonly #include: readonly string[]
  readonly #exclude: readonly string[]

  /** Names, in which `*` stands for any characters; `exclude` takes precedence. */
  constructor({ include, exclude }: { readonly include: readonly string[]; readonly exclude: readonly string[] }) {
    this.#include = include.map((pattern) => pattern.toLowerCase())
    this.#exclude = exclude.map((pattern) => pattern.toLowerCase())
  }

  of({ req }: Pick<Call, 'req'>): JsonObject {
    const told = Object.entries(req.headers).filter(([name]) => this.#isTold(name))
    return Object.fromEntries(told.map(([name, value]) => [name, String(value)]))
  }

  #isTold(name: string): boolean {
    const isIn = (patterns: readonly string[]) => patterns.some((pattern) => matches(pattern, name))
    if (CREDENTIAL.test(name) || PLACE.test(name) || isIn(this.#exclude)) return false
    return this.#include.length > 0 ? isIn(this.#include) : BY_DEFAULT.test(name)
  }
}

/** In linear time, whatever name the client sends: a regular expression with many stars would backtrack. */
function matches(pattern: string, name: string): boolean {
  const [head = '', ...parts] = pattern.split('*')
  const tail = parts.pop()
  if (tail === undefined) return name === pattern
  let at = head.length
  for (const part of parts) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.startsWith(head) && name.endsWith(tail) && at + tail.length <= name.length
}
