// Searches and counts threads. The store applies the indexed conditions; nested metadata, state values and words of the
// title are checked here, within limits.
import { setImmediate as turn } from 'node:timers/promises'
import * as v from 'valibot'
import { type Route, route, type UserCall } from '../http/route.ts'
import { jsonList } from '../http/reply.ts'
import { fewKeys, integer, jsonObject, listOf, objectOf } from '../http/schema.ts'
import type { ThreadPage, ThreadQuery } from '../store/store.ts'
import { Containment } from '../thread/contains.ts'
import type { Json, JsonObject, Thread } from '../base/types.ts'
import { arrayOf, int64, one, paged, selectable } from './answers.ts'
import { counting, searching } from './authorization.ts'
import { costly, refusedValue } from './input.ts'
import { paginationHeaders } from './page.ts'
import type { Services } from './services.ts'
import { EXTRACT_PATH, partsOf, recordText, type ShownState, titleState } from './thread-view.ts'

const FILTER_KEYS_MAX = 64
const IDS_MAX = 1000
const EXTRACTS_MAX = 10
/** Limits of conditions checked here: threads, threads per page, and total characters of their states. */
const LOOKED_AT_MAX = 10_000
const LOOKED_AT_PAGE = 500
const STATES_LENGTH = 6 * 1024 * 1024
/** Characters of the states in one page; the page ends before it would be longer. */
const PAGE_LENGTH = 16 * 1024 * 1024
/** Threads checked per turn of the event loop. */
const TURN_THREADS = 16

const extracts = v.pipe(
  jsonObject,
  v.check((paths) => Object.keys(paths).length <= EXTRACTS_MAX, `Value error, at most ${EXTRACTS_MAX} paths`),
  v.check(
    (paths) =>
      Object.values(paths).every((path) => typeof path === 'string' && path.length <= 256 && EXTRACT_PATH.test(path)),
    'Value error, a path must look like values.messages[-1].content'
  ),
  // Checked above.
  v.transform((paths) => paths as Record<string, string>)
)

const filters = {
  // Each key is one condition.
  metadata: v.nullish(fewKeys(FILTER_KEYS_MAX), {}),
  // busy is LangGraph's word for a thread with a run in flight.
  status: v.nullish(v.picklist(['idle', 'running', 'busy', 'interrupted', 'error'])),
  ids: v.nullish(listOf(v.string(), IDS_MAX)),
  values: v.nullish(fewKeys(FILTER_KEYS_MAX)),
  // A part of the title, in any case.
  query: v.nullish(v.pipe(v.string(), v.maxLength(256)))
}
const searchBody = objectOf({
  ...filters,
  sort_by: v.nullish(v.picklist(['thread_id', 'created_at', 'updated_at', 'status', 'state_updated_at'])),
  sort_order: v.nullish(v.picklist(['asc', 'desc'])),
  select: v.nullish(listOf(v.string(), FILTER_KEYS_MAX)),
  extract: v.nullish(extracts),
  limit: v.nullish(integer({ min: 1, max: 1000 })),
  offset: v.nullish(integer({ min: 0 }), 0)
})
const countBody = objectOf(filters)
type Filters = v.InferOutput<typeof countBody>
type SearchBody = v.InferOutput<typeof searchBody>

/** A condition that no index covers. */
type Condition = (thread: Thread) => Promise<boolean>

const isNested = (value: Json): boolean => typeof value === 'object' && value !== null

export function threadSearchRoutes({ store, states }: Services): Route[] {
  const conditionOf = ({ metadata, values, query }: Filters): Condition | null => {
    const nested = Object.fromEntries(Object.entries(metadata ?? {}).filter(([, value]) => isNested(value)))
    const wanted = values ?? {}
    const words = query?.toLowerCase() ?? ''
    const asksValues = Object.keys(wanted).length > 0
    if (Object.keys(nested).length === 0 && !asksValues && words === '') return null
    const containment = new Containment()
    let left = STATES_LENGTH
    const hasValues = async ({ thread_id }: Thread): Promise<boolean> => {
      // A synchronous store would never yield to the event loop.
      await turn()
      const state = await states.values(thread_id, null)
      left -= state?.json.length ?? 0
      if (left < 0) throw refusedValue(['body', 'values'], 'the states to search are too large: add conditions')
      // States are made of objects.
      return state !== null && containment.holds(JSON.parse(state.json) as JsonObject, wanted)
    }
    const isFound = async (thread: Thread): Promise<boolean> =>
      (words === '' || (thread.display_name ?? '').toLowerCase().includes(words)) &&
      containment.holds(thread.metadata, nested) &&
      (!asksValues || hasValues(thread))
    return async (thread) => {
      await containment.rest()
      return isFound(thread)
    }
  }

  const queryOf = ({ metadata, status, ids }: Filters): Omit<ThreadQuery, 'limit' | 'offset'> => ({
    metadata: Object.fromEntries(Object.entries(metadata ?? {}).filter(([, value]) => !isNested(value))),
    ...(status && { status: status === 'busy' ? 'running' : status }),
    ...(ids && { ids })
  })

  /** Checks every thread the index finds, because the total is needed. */
  const lookAmong = async (query: ThreadQuery, condition: Condition, user: string): Promise<ThreadPage> => {
    const found: Thread[] = []
    for (let offset = 0; ; offset += LOOKED_AT_PAGE) {
      await turn()
      const page = await store.threads.search({ ...query, limit: LOOKED_AT_PAGE, offset }, user)
      if (page.total > LOOKED_AT_MAX)
        throw refusedValue(['body', 'metadata'], `${page.total} threads would have to be searched: add conditions`)
      for (const [at, thread] of page.threads.entries()) {
        if (at % TURN_THREADS === 0) await turn()
        if (await condition(thread)) found.push(thread)
      }
      if (page.threads.length < LOOKED_AT_PAGE) break
    }
    return { threads: found.slice(query.offset, query.offset + query.limit), total: found.length }
  }

  const find = async (body: Filters, query: ThreadQuery, user: string): Promise<ThreadPage> => {
    const condition = conditionOf(body)
    return condition ? lookAmong(query, condition, user).catch(costly) : store.threads.search(query, user)
  }

  /** Threads with their states, as many as fit into a page, but at least one. */
  const withStates = async (threads: readonly Thread[]): Promise<[Thread, ShownState][]> => {
    const shown: [Thread, ShownState][] = []
    let left = PAGE_LENGTH
    for (const thread of threads) {
      await turn()
      const state = (await states.values(thread.thread_id, null)) ?? titleState(thread)
      left -= state.json.length
      if (left < 0 && shown.length > 0) break
      shown.push([thread, state])
    }
    return shown
  }

  const search = async (call: UserCall<SearchBody>) => {
    const { body, user } = call
    const defaults = call.dialect.threadSearch
    const sortBy = body.sort_by === 'state_updated_at' ? 'updated_at' : body.sort_by
    const query: ThreadQuery = {
      ...queryOf(body),
      limit: body.limit ?? defaults.limit,
      offset: body.offset ?? 0,
      sortBy: sortBy ?? defaults.sortBy,
      ...(body.sort_order && { sortOrder: body.sort_order })
    }
    const { threads, total } = await find(body, query, user.id)
    const { select = null, extract = null } = body
    const wantsState = select
      ? select.some((field) => field === 'values' || field === 'interrupts')
      : defaults.withStates
    const showsState = wantsState || extract
    const shown = showsState ? await withStates(threads) : threads.map(withTitle)
    const textOf = ([thread, state]: [Thread, ShownState]) => partsOf(recordText(call, thread, state), select, extract)
    const { jsonText, count } = await jsonList(shown, textOf, showsState ? Number.POSITIVE_INFINITY : undefined)
    return { jsonText, headers: paginationHeaders(total, query.offset, count) }
  }

  const count = async ({ body, user }: UserCall<Filters>) => {
    const { total } = await find(body, { ...queryOf(body), limit: 1, offset: 0 }, user.id)
    return { json: total }
  }

  const reading = { method: 'POST', permission: 'threads:read', bodyOptional: true } as const
  return [
    route({
      ...reading,
      path: '/api/threads/search',
      body: searchBody,
      rule: searching('threads'),
      summary: 'Search threads, newest first',
      answers: paged(arrayOf(selectable('Thread'))),
      handler: search
    }),
    route({
      ...reading,
      path: '/api/threads/count',
      body: countBody,
      rule: counting('threads'),
      summary: 'Count the threads that a search would find',
      answers: one(int64),
      handler: count
    })
  ]
}

const withTitle = (thread: Thread): [Thread, ShownState] => [thread, titleState(thread)]
