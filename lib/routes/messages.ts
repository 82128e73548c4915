// Messages and events of threads and runs, token usage.
import * as v from 'valibot'
import { Invalid } from '../base/errors.ts'
import { type Call, type Route, route } from '../http/route.ts'
import { listIn } from '../http/request.ts'
import { issue, objectOf, queryInteger } from '../http/schema.ts'
import type { SeqPage } from '../store/store.ts'
import { feedbackView } from '../thread/checkpoint.ts'
import { newestRuns } from '../thread/newest-runs.ts'
import { type Feedback, isInFlight, type RunEvent } from '../base/types.ts'
import { arrayOf, one, ref } from './answers.ts'
import { runOf } from './run-view.ts'
import type { Services } from './services.ts'

const seq = v.optional(queryInteger({ min: 1 }))
const page = { limit: v.optional(queryInteger({ min: 1, max: 200 }), '50'), before_seq: seq }
const pageQuery = objectOf({ ...page, after_seq: seq })
const backwardQuery = objectOf({ ...page, after_seq: v.optional(v.string()) })
const eventsQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 2000 }), '500'),
  event_types: v.optional(v.string()),
  after_seq: seq
})
type PageQuery = v.InferOutput<typeof pageQuery>

function pageOf({ before_seq, after_seq }: PageQuery, limit: number): SeqPage {
  return { limit, before: before_seq, after: after_seq }
}

/** Maximum characters per page, not counting its first row. */
const PAGE_CHARS = 8 * 1024 * 1024
const CHARS_PER_TOKEN = 4
/** In the metadata of a run that replays another one: that one's id. */
const REPLAYED = 'regenerate_from_run_id'
/** Runs per read when looking for replays. */
const RUNS_PAGE = 1000
/** Rows per read: a few first, because their sizes are unknown. */
const STEP = { first: 4, most: 16 }

/** Up to `limit` rows within the page size. `isCut`: the size ended the page, not the limit. */
async function bounded<Page extends { readonly limit: number; readonly before?: number; readonly after?: number }>(
  page: Page,
  read: (page: Page) => Promise<RunEvent[]>
): Promise<{ rows: RunEvent[]; isCut: boolean }> {
  const isForward = page.after !== undefined
  let rows: RunEvent[] = []
  let chars = 0
  for (let step = STEP.first; rows.length < page.limit; step = STEP.most) {
    const limit = Math.min(step, page.limit - rows.length)
    const edge = isForward ? rows.at(-1)?.seq : rows[0]?.seq
    const found = await read({ ...page, limit, ...(edge !== undefined && { [isForward ? 'after' : 'before']: edge }) })
    // In reading order.
    const inOrder = isForward ? found : found.toReversed()
    const over = inOrder.findIndex((row) => {
      chars += charsOf(row)
      return chars > PAGE_CHARS
    })
    const taken = over < 0 ? inOrder : inOrder.slice(0, Math.max(over, rows.length === 0 ? 1 : 0))
    rows = isForward ? [...rows, ...taken] : [...taken.toReversed(), ...rows]
    if (over >= 0) return { rows, isCut: true }
    if (found.length < limit) break
  }
  return { rows, isCut: false }
}

function charsOf({ content }: RunEvent): number {
  return typeof content === 'string' ? content.length : JSON.stringify(content).length
}

/** One extra row was read to know whether there are more [contract 4.4]. */
function trimmed(
  { rows, isCut }: { rows: RunEvent[]; isCut: boolean },
  limit: number,
  forward: boolean
): { data: RunEvent[]; has_more: boolean } {
  const has_more = isCut || rows.length > limit
  if (rows.length <= limit) return { data: rows, has_more }
  return { data: forward ? rows.slice(0, limit) : rows.slice(1), has_more }
}

export function messageRoutes({ store, states, config }: Services): Route[] {
  /** Adds `feedback` to every row: null except for the last answer of each run in the page. */
  const withFeedback = async (threadId: string, rows: RunEvent[]): Promise<object[]> => {
    const last = new Map<string, number>()
    for (const row of rows) if (row.event_type === 'ai_message') last.set(row.run_id, row.seq)
    const none: ReadonlyMap<string, Feedback> = new Map()
    const given = last.size && store.feedback ? await store.feedback.byRuns(threadId, [...last.keys()]) : none
    return rows.map((row) => ({
      ...row,
      feedback: last.get(row.run_id) === row.seq ? feedbackView(given.get(row.run_id) ?? null) : null
    }))
  }

  const ofThread = async ({ params, query }: Call<unknown, PageQuery>) => {
    const threadId = params.thread_id!
    const { rows } = await bounded(pageOf(query, query.limit), (page) => store.events.listMessages(threadId, page))
    return { json: await withFeedback(threadId, rows) }
  }

  /**
   * Runs that another one has replaced: an answer regenerated, a question edited. While a replay is under way or has succeeded it
   * stands for its source; an edit that failed is hidden itself.
   */
  const superseded = async (threadId: string): Promise<ReadonlySet<string>> => {
    const hidden = new Set<string>()
    const decided = new Set<string>()
    for (let offset = 0; ; offset += RUNS_PAGE) {
      const page = await store.runs.list(threadId, { limit: RUNS_PAGE, offset, metadataKey: REPLAYED, kwargsBytes: 0 })
      // Newest first: of several edits of one question the newest decides.
      for (const { run_id, status, stop_reason, metadata } of page) {
        const source = metadata[REPLAYED]
        if (typeof source !== 'string') continue
        if (metadata.replay_kind !== 'edit') {
          if (status === 'success') hidden.add(source)
          continue
        }
        // One that has asked its user goes on with the answer.
        const isOpen = isInFlight({ status }) || stop_reason === 'asked_user'
        const hasFailed = !isOpen && status !== 'success'
        if (hasFailed || decided.has(source)) hidden.add(run_id)
        else hidden.add(source)
        decided.add(source)
      }
      if (page.length < RUNS_PAGE) return hidden
    }
  }

  /** Rows of a page without those of hidden runs: reads on until there are enough. */
  const visible =
    (threadId: string, hidden: ReadonlySet<string>) =>
    async (page: SeqPage): Promise<RunEvent[]> => {
      let rows: RunEvent[] = []
      for (let { before } = page; ; ) {
        const limit = page.limit - rows.length
        const found = await store.events.listMessages(threadId, { limit, ...(before !== undefined && { before }) })
        rows = [...found.filter(({ run_id }) => !hidden.has(run_id)), ...rows]
        if (found.length < limit || rows.length >= page.limit) return rows
        before = found[0]!.seq
      }
    }

  const pageOfThread = async ({ params, query }: Call<unknown, v.InferOutput<typeof backwardQuery>>) => {
    if (query.after_seq !== undefined) {
      const msg = 'after_seq is not supported by this backward-only endpoint'
      throw new Invalid([{ ...issue('value_error', ['query', 'after_seq']), msg }])
    }
    const threadId = params.thread_id!
    const { before_seq, limit } = query
    const read = visible(threadId, await superseded(threadId))
    const page = await bounded({ limit: limit + 1, before: before_seq }, read)
    const { data, has_more } = trimmed(page, limit, false)
    const next_before_seq = has_more ? (data[0]?.seq ?? null) : null
    return { json: { data: await withFeedback(threadId, data), has_more, next_before_seq } }
  }

  const ofRun = async (threadId: string, runId: string, query: PageQuery) => {
    const page = await bounded(pageOf(query, query.limit + 1), (one) =>
      store.events.listMessagesByRun(threadId, runId, one)
    )
    return { json: trimmed(page, query.limit, query.after_seq !== undefined) }
  }

  const ofRunAlone = async ({ params, query }: Call<unknown, PageQuery>) => {
    const { thread_id, run_id } = await runOf({ store }, { params })
    return ofRun(thread_id, run_id, query)
  }

  const events = async (call: Call<unknown, v.InferOutput<typeof eventsQuery>>) => {
    const { params, query } = call
    const types = listIn(call, 'event_types')
    const wanted = { limit: query.limit, after: query.after_seq ?? 0, ...(types && { types }) }
    const { rows } = await bounded(wanted, (page) => store.events.listEvents(params.thread_id!, params.run_id!, page))
    return { json: rows }
  }

  const usage = async ({ params }: Call) => {
    const threadId = params.thread_id!
    const [tokens, context_usage] = await Promise.all([store.runs.tokens(threadId), contextUsage(threadId)])
    return { json: { thread_id: threadId, ...tokens, context_usage } }
  }

  /** About how much of the model's context the conversation takes; null: its state cannot be read. */
  const contextUsage = async (threadId: string): Promise<object | null> => {
    const state = await states.values(threadId, null).catch(() => null)
    if (state === null) return null
    const [last] = await newestRuns(1, (page) => store.runs.list(threadId, { ...page, kwargsBytes: 0 }))
    const model = config.models.find(({ name }) => name === last?.model_name) ?? config.models[0]
    const window = model?.context_window || null
    // Of the stored text: a long state is not parsed for a gauge.
    const token_count = Math.ceil(state.json.length / CHARS_PER_TOKEN)
    const percentage = window === null ? null : Math.round((token_count / window) * 1000) / 10
    return { token_count, max_context_tokens: window, percentage }
  }

  const thread = '/api/threads/{thread_id}'
  const reading = { method: 'GET', permission: 'runs:read', rule: 'threads:read' } as const
  const below = { ...reading, thread: 'read', link: 'thread' } as const
  return [
    route({
      ...below,
      path: `${thread}/messages`,
      query: pageQuery,
      summary: 'Messages of a thread, across its runs',
      answers: one(arrayOf(ref('ThreadMessage'))),
      handler: ofThread
    }),
    route({
      ...below,
      path: `${thread}/messages/page`,
      query: backwardQuery,
      summary: 'Messages of a thread, paged backwards',
      answers: one(ref('ThreadMessagePage')),
      handler: pageOfThread
    }),
    route({
      ...below,
      path: `${thread}/runs/{run_id}/messages`,
      query: pageQuery,
      summary: 'Messages of a run',
      answers: one(ref('MessagePage')),
      handler: ({ params, query }) => ofRun(params.thread_id!, params.run_id!, query)
    }),
    route({
      ...reading,
      path: '/api/runs/{run_id}/messages',
      query: pageQuery,
      summary: 'Messages of a run without knowing its thread',
      answers: one(ref('MessagePage')),
      handler: ofRunAlone
    }),
    route({
      ...below,
      // Prompts and traces are no part of a conversation.
      link: null,
      path: `${thread}/runs/{run_id}/events`,
      query: eventsQuery,
      summary: 'All recorded events of a run',
      answers: one(arrayOf(ref('RunEvent'))),
      handler: events
    }),
    route({
      ...below,
      permission: 'threads:read',
      path: `${thread}/token-usage`,
      summary: 'Token usage of a thread, by model and caller',
      answers: one(ref('TokenUsage')),
      handler: usage
    })
  ]
}
