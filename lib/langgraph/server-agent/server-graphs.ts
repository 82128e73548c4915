// The graphs of a LangGraph server, as its assistants describe them: which there are, their schemas and their drawing.
import { LRUCache } from 'lru-cache'
import { RetryableError } from '../../agent/http/failures.ts'
import { AgentError } from '../../agent/runtime.ts'
import type { GraphDescriptions, GraphInfo } from '../../agent/states.ts'
import { fail, warnUnexpected } from '../../base/errors.ts'
import { objectOr, objectsIn, textOr } from '../../base/json.ts'
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import type { Requests } from './requests.ts'

/** How long what the server has said is passed on, in ms. */
const KEPT_MS = 30_000
const KEPT_MAX = 256
/** Timeout for an answer, with attempts, in ms. */
const ASK_MS = 15_000
/** Assistants looked at for their graphs. */
const ASSISTANTS_MAX = 1000

export class ServerGraphs implements GraphDescriptions {
  readonly #requests: Requests
  /** The one assistant that runs name; null: any. */
  readonly #assistantId: string | null
  readonly #kept = new LRUCache<string, JsonObject>({ max: KEPT_MAX, ttl: KEPT_MS })
  #known: readonly GraphInfo[] = []
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(requests: Requests, assistantId: string | null) {
    this.#requests = requests
    this.#assistantId = assistantId
  }

  /** As far as the server was asked: it is again, meanwhile, when that is a while ago. */
  graphs(): readonly GraphInfo[] {
    if (performance.now() - this.#lookedAt > KEPT_MS) this.#look().catch(warnUnexpected)
    return this.#known
  }

  schemas(graphId: string): Promise<JsonObject | null> {
    return this.#ask(graphId, 'schemas')
  }

  draw(graphId: string, xray: boolean | number): Promise<JsonObject | null> {
    return this.#ask(graphId, `graph?xray=${xray}`)
  }

  subgraphs(graphId: string, namespace: string | null, recurse: boolean): Promise<JsonObject | null> {
    const place = namespace === null ? '' : `/${encodeURIComponent(namespace)}`
    return this.#ask(graphId, `subgraphs${place}?recurse=${recurse}`)
  }

  async #look(): Promise<void> {
    this.#lookedAt = performance.now()
    try {
      const names = (await this.#assistants()).flatMap(({ graph_id }) => textOr(graph_id) ?? [])
      if (names.length > 0) this.#known = [...new Set(names)].map((id) => ({ id, description: null }))
    } catch (error) {
      // Not there yet, or none of its clients may look: runs name graphs all the same.
      if (!isOfServer(error)) throw error
    }
  }

  async #assistants(): Promise<JsonObject[]> {
    const signal = AbortSignal.timeout(ASK_MS)
    if (this.#assistantId !== null)
      return [objectOr(await this.#once('GET', `/assistants/${encodeURIComponent(this.#assistantId)}`, { signal }))]
    const body = { metadata: { created_by: 'system' }, limit: ASSISTANTS_MAX }
    return objectsIn(await this.#once('POST', '/assistants/search', { body, signal }))
  }

  /** @returns null: the server has no such graph. @throws Failure `graphs_unavailable` */
  async #ask(graphId: string, what: string): Promise<JsonObject | null> {
    const path = `/assistants/${encodeURIComponent(this.#assistantId ?? graphId)}/${what}`
    const kept = this.#kept.get(path)
    if (kept) return kept
    try {
      const answer = await this.#once('GET', path, { signal: AbortSignal.timeout(ASK_MS) })
      if (!isObject(answer)) return null
      this.#kept.set(path, answer)
      return answer
    } catch (error) {
      if (!isOfServer(error)) throw error
      throw fail('graphs_unavailable', { reason: error.message })
    }
  }

  /** Nobody waits for a server that is not there. @throws AgentError */
  async #once(...of: Parameters<Requests['askOnce']>): Promise<Json> {
    const answer = await this.#requests.askOnce(...of)
    if (answer instanceof RetryableError) throw answer.error
    return answer
  }
}

/** It has refused, cannot be reached, or takes too long. */
export function isOfServer(error: unknown): error is Error {
  return error instanceof AgentError || (error instanceof DOMException && error.name === 'TimeoutError')
}
