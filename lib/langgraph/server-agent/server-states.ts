// States of threads behind a LangGraph server: the server's checkpoints, with their ids, tasks and subgraphs. Ours stay authoritative: what
// they say beyond the server's (an update, a broken answer, a run at work) stands in front, under ids of ours.
import { RetryableError } from '../../agent/http/failures.ts'
import type {
  HistoryQuery,
  KeptState,
  KeptStates,
  StateAt,
  StateChange,
  StatePlace,
  StatePort
} from '../../agent/states.ts'
import { fail } from '../../base/errors.ts'
import type { Json, JsonObject } from '../../base/types.ts'
import { hasMembers, objectOr, objectsIn, parseJson, textOr } from '../../base/json.ts'
import { type GraphCheckpointRef, REF_CHANNEL, readRef } from './checkpoint-ref.ts'
import { stateText, withMessages } from './state-view.ts'
import { isSameState } from './input.ts'
import type { Requests } from './requests.ts'
import { isOfServer } from './server-graphs.ts'
import { stateIn } from './server-thread.ts'
import { UUID } from './graph.ts'
import { readMessage } from '../graph/message.ts'

/** How long a history may take, in ms. */
const HISTORY_MS = 10_000
/** How long the newest state waits for the server before ours is shown. */
const STATE_MS = 3000
/** States that are looked at together, for those of certain metadata; how many in all, and characters of those that are found. */
const FILTERED = 100
const FILTERED_MAX = 5000
const FILTERED_LENGTH = 32 * 1024 * 1024
/** States of the server that are looked through for the first one that is ours too. */
const SHARED_MAX = 50
/** Our checkpoints that are compared with one of the server's. */
const COMPARED_MAX = 200

type Delegated = 'values' | 'build' | 'copy' | 'graphs' | 'schemas' | 'draw' | 'subgraphs'

export class ServerStates implements StatePort {
  readonly isOfGraphs = false
  readonly takesBreakpoints = true
  readonly values: StatePort['values']
  readonly build: StatePort['build']
  readonly copy: StatePort['copy']
  readonly graphs: StatePort['graphs']
  readonly schemas: StatePort['schemas']
  readonly draw: StatePort['draw']
  readonly subgraphs: StatePort['subgraphs']
  readonly #kept: KeptStates
  readonly #requests: Requests

  constructor(kept: KeptStates, requests: Requests) {
    this.#kept = kept
    this.#requests = requests
    const same = <Name extends Delegated>(name: Name): KeptStates[Name] => kept[name].bind(kept) as KeptStates[Name]
    this.values = same('values')
    this.build = same('build')
    this.copy = same('copy')
    this.graphs = same('graphs')
    this.schemas = same('schemas')
    this.draw = same('draw')
    this.subgraphs = same('subgraphs')
  }

  async has(threadId: string, checkpointId: string): Promise<boolean> {
    if (await this.#kept.has(threadId, checkpointId)) return true
    const remote = await this.#remoteOf(threadId)
    return remote !== null && (await this.#state(remote, { checkpointId, namespace: '' }, false)) !== null
  }

  async get(threadId: string, place: StatePlace, withSubgraphs = false, isBare = false): Promise<string | null> {
    const { checkpointId, namespace } = place
    const [newest] = await this.#kept.kept(threadId, { limit: 1, before: null, user: null })
    const remote = newest ? refOf(newest).threadId : null
    if (!newest || remote === null) return this.#kept.get(threadId, place)
    const about = { threadId, remote, isBare }
    if (checkpointId === null && namespace === '') {
      const ours = await this.#kept.get(threadId, place)
      const theirs = await this.#state(remote, place, withSubgraphs, STATE_MS).catch(() => null)
      return theirs && isOf(newest, theirs) ? stateText(about, theirs, valuesIn(ours)) : ours
    }
    const own = checkpointId !== null && (await this.#kept.has(threadId, checkpointId))
    if (own && namespace === '') return this.#kept.get(threadId, place)
    const theirs = await this.#state(
      remote,
      own ? { checkpointId: refOf(newest).checkpointId, namespace } : place,
      withSubgraphs
    )
    return theirs && stateText(about, theirs, withMessages(theirs, valuesOf(newest)))
  }

  async history(threadId: string, query: HistoryQuery): Promise<string[]> {
    const { metadata, limit } = query
    if (metadata === null) return this.#history(threadId, query)
    const found: string[] = []
    let { before } = query
    let length = 0
    for (let seen = 0; seen < FILTERED_MAX; ) {
      const page = await this.#history(threadId, { ...query, before, limit: FILTERED })
      for (const text of page) {
        const entry = objectOr(parseJson(text))
        before = idOf(entry)
        if (!hasMembers(objectOr(entry.metadata), metadata)) continue
        length += text.length
        if (found.length > 0 && length > FILTERED_LENGTH) return found
        if (found.push(text) === limit) return found
      }
      seen += page.length
      if (page.length === 0 || before === null) return found
    }
    return found
  }

  async #history(threadId: string, query: HistoryQuery): Promise<string[]> {
    const { limit, before, place, user, isBare = false } = query
    const [newest] = await this.#kept.kept(threadId, { limit: 1, before: null, user })
    const remote = newest ? refOf(newest).threadId : null
    if (!newest || remote === null) return this.#kept.history(threadId, { ...query, metadata: null })
    const about = { threadId, remote, isBare }
    const shown = valuesOf(newest)
    const textsOf = (list: readonly JsonObject[]) => list.map((one) => stateText(about, one, withMessages(one, shown)))
    if (place)
      return textsOf(
        await this.#list(remote, { limit, before, checkpoint: placeJson(await this.#theirs(threadId, place)) })
      )
    if (before !== null && !UUID.test(before)) return []
    if (before !== null && !(await this.#kept.has(threadId, before)))
      return textsOf(await this.#list(remote, { limit, before }))
    const page = await this.#kept.kept(threadId, { limit, before, user })
    const { at, theirs } = await this.#firstShared(remote, page)
    const own = page.slice(0, at).map(({ json }) => json)
    if (!theirs) return own
    const head = stateText(about, theirs, valuesOf(page[at]!))
    const left = limit - own.length - 1
    const older = left > 0 ? await this.#list(remote, { limit: left, before: idOf(theirs) }) : []
    return [...own, head, ...textsOf(older)]
  }

  async update(threadId: string, change: StateChange): ReturnType<StatePort['update']> {
    const { checkpointId } = change.place
    if (checkpointId === null || (await this.#kept.has(threadId, checkpointId)))
      return this.#kept.update(threadId, change)
    const remote = await this.#remoteOf(threadId)
    const theirs = remote === null ? null : await this.#state(remote, change.place, false)
    if (!theirs) return { outcome: 'checkpoint_missing' }
    const page = await this.#kept.kept(threadId, { limit: COMPARED_MAX, before: null, user: null })
    const own = page.find((one) => isSameState(one.state(), stateIn(theirs)))
    if (!own) return { outcome: 'checkpoint_missing' }
    return this.#kept.update(threadId, { ...change, place: { ...change.place, checkpointId: own.checkpointId } })
  }

  /** See StatePort. */
  async elsewhere(threadId: string, checkpointId: string): Promise<StateAt | null> {
    const [newest] = await this.#kept.kept(threadId, { limit: 1, before: null, user: null })
    const remote = newest ? refOf(newest).threadId : null
    const theirs = remote === null ? null : await this.#state(remote, { checkpointId, namespace: '' }, false)
    const state = stateIn(theirs)
    if (!newest || !state) return null
    const { messages, ...channels } = state.values
    let unnamed = 0
    const list = Array.isArray(messages) ? messages : []
    const ref: GraphCheckpointRef = { threadId: remote, checkpointId, runId: null }
    return {
      messages: list.flatMap((one) => readMessage(one, () => `unnamed-${unnamed++}`) ?? []),
      channels,
      interrupts: state.interrupts,
      next: state.next,
      own: { [REF_CHANNEL]: { thread_id: ref.threadId, checkpoint_id: ref.checkpointId, run_id: null } }
    }
  }

  // ------------------------------------------------------------------------------------------------ of the server

  /**
   * The first of our states, newest first, that is one of the server's. `at`: behind the last, where none is. In front of it stand few:
   * the newest is asked for, and where it is not ours, those behind it are listed, once.
   */
  async #firstShared(remote: string, page: readonly KeptState[]): Promise<{ at: number; theirs: JsonObject | null }> {
    const [newest] = page.flatMap((one) => refOf(one).checkpointId ?? [])
    if (newest === undefined) return { at: page.length, theirs: null }
    const theirs = await this.#state(remote, { checkpointId: newest, namespace: '' }, false)
    const shared = sharedOf(page, theirs ? [theirs] : [])
    if (shared.theirs || page.every((one) => (refOf(one).checkpointId ?? newest) === newest)) return shared
    const limit = Math.max(page.length, SHARED_MAX)
    return sharedOf(page, await this.#list(remote, { limit, before: theirs && newest }))
  }

  /** A place by the server's id, where it is named by one of ours. */
  async #theirs(threadId: string, place: StatePlace): Promise<StatePlace> {
    const { checkpointId } = place
    if (checkpointId === null || !(await this.#kept.has(threadId, checkpointId))) return place
    const page = await this.#kept.kept(threadId, { limit: COMPARED_MAX, before: null, user: null })
    const own = page.find((one) => one.checkpointId === checkpointId)
    return { ...place, checkpointId: own ? refOf(own).checkpointId : null }
  }

  async #remoteOf(threadId: string): Promise<string | null> {
    const [newest] = await this.#kept.kept(threadId, { limit: 1, before: null, user: null })
    return newest ? refOf(newest).threadId : null
  }

  /** null: there is none. @throws Failure `graphs_unavailable` */
  async #state(remote: string, place: StatePlace, withSubgraphs: boolean, ms = HISTORY_MS): Promise<JsonObject | null> {
    const { checkpointId, namespace } = place
    // Servers take it for a failure of theirs.
    if (checkpointId !== null && !UUID.test(checkpointId)) return null
    const path = `/threads/${encodeURIComponent(remote)}/state`
    const at = checkpointId === null ? '' : `/${encodeURIComponent(checkpointId)}`
    // Servers in JavaScript refuse `subgraphs` with a checkpoint in the body.
    const given = await (namespace === ''
      ? this.#ask('GET', `${path}${at}?subgraphs=${withSubgraphs}`, ms)
      : this.#ask('POST', `${path}/checkpoint`, ms, { checkpoint: placeJson(place) }))
    return stateIn(given) ? objectOr(given) : null
  }

  /** Newest first. @throws Failure `graphs_unavailable` */
  async #list(
    remote: string,
    {
      limit,
      before,
      checkpoint
    }: { readonly limit: number; readonly before: string | null; readonly checkpoint?: JsonObject }
  ): Promise<JsonObject[]> {
    const body = { limit, ...(before !== null && { before }), ...(checkpoint && { checkpoint }) }
    return objectsIn(await this.#ask('POST', `/threads/${encodeURIComponent(remote)}/history`, HISTORY_MS, body))
  }

  async #ask(method: 'GET' | 'POST', path: string, ms: number, body?: JsonObject): Promise<Json> {
    try {
      const options = { signal: AbortSignal.timeout(ms), ...(body && { body }) }
      const answer = await this.#requests.askOnce(method, path, options)
      if (answer instanceof RetryableError) throw answer.error
      return answer
    } catch (error) {
      if (!isOfServer(error)) throw error
      throw fail('graphs_unavailable', { reason: error.message })
    }
  }
}

function refOf(kept: KeptState): GraphCheckpointRef {
  return readRef(kept.state().channels[REF_CHANNEL])
}

/** Our state is what this checkpoint of the server has. */
function isOf(kept: KeptState, theirs: JsonObject): boolean {
  return refOf(kept).checkpointId === idOf(theirs) && isSameState(kept.state(), stateIn(theirs))
}

function sharedOf(page: readonly KeptState[], listed: readonly JsonObject[]) {
  const byId = new Map(listed.map((one) => [idOf(one), one]))
  const theirsOf = (one: KeptState) => byId.get(refOf(one).checkpointId) ?? null
  const at = page.findIndex((one) => {
    const theirs = theirsOf(one)
    return theirs !== null && isOf(one, theirs)
  })
  return at < 0 ? { at: page.length, theirs: null } : { at, theirs: theirsOf(page[at]!) }
}

function idOf(state: JsonObject): string | null {
  return textOr(objectOr(state.checkpoint).checkpoint_id)
}

function valuesOf({ json }: KeptState): JsonObject {
  return valuesIn(json)
}

/** Of a state as text. */
function valuesIn(json: string | null): JsonObject {
  return objectOr(objectOr(parseJson(json ?? '')).values)
}

function placeJson({ checkpointId, namespace }: StatePlace): JsonObject {
  return { checkpoint_ns: namespace, ...(checkpointId !== null && { checkpoint_id: checkpointId }) }
}
