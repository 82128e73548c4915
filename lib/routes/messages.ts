// Messages and events of threads and runs, token usage.
import * as v from 'valibot'
import { fail, Invalid } from '../errors.ts'
import type { Call } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import { issue, objectOf, queryInteger } from '../http/schema.ts'
import type { SeqPage } from '../store/store.ts'
import { feedbackView } from '../thread/checkpoint.ts'
import type { Feedback, RunEvent } from '../types.ts'
import type { Services } from './services.ts'

const seq = v.optional(queryInteger({ min: 1 }))
const pageQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 200 }), '50'),
  before_seq: seq,
  after_seq: seq
})
const backwardQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 200 }), '50'),
  before_seq: seq,
  after_seq: v.optional(v.string())
})
const eventsQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 2000 }), '500'),
  event_types: v.optional(v.string()),
  after_seq: seq
})
type PageQuery = v.InferOutput<typeof pageQuery>

function pageOf({ before_seq, after_seq }: PageQuery, limit: number): SeqPage {
  return {
    limit,
    ...(before_seq !== undefined && { before: before_seq }),
    ...(after_seq !== undefined && { after: after_seq })
  }
}

/** One row too many was asked for: it tells that there are more, on the side where the page goes on [contract 4.4]. */
function trimmed(rows: RunEvent[], limit: number, forward: boolean): { data: RunEvent[]; has_more: boolean } {
  const has_more = rows.length > limit
  if (!has_more) return { data: rows, has_more }
  return { data: forward ? rows.slice(0, limit) : rows.slice(1), has_more }
}

export function messageRoutes({ store }: Services): Route[] {
  /** The last answer of each run within the page carries its feedback, every row the key. Without a feedback store: null. */
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
    return { json: await withFeedback(threadId, await store.events.listMessages(threadId, pageOf(query, query.limit))) }
  }

  const pageOfThread = async ({ params, query }: Call<unknown, v.InferOutput<typeof backwardQuery>>) => {
    if (query.after_seq !== undefined) {
      throw new Invalid([
        {
          ...issue('value_error', ['query', 'after_seq']),
          msg: 'after_seq is not supported by this backward-only endpoint'
        }
      ])
    }
    const threadId = params.thread_id!
    const { before_seq, limit } = query
    const rows = await store.events.listMessages(threadId, {
      limit: limit + 1,
      ...(before_seq !== undefined && { before: before_seq })
    })
    const { data, has_more } = trimmed(rows, limit, false)
    return {
      json: {
        data: await withFeedback(threadId, data),
        has_more,
        next_before_seq: has_more ? (data[0]?.seq ?? null) : null
      }
    }
  }

  const ofRun = async (threadId: string, runId: string, query: PageQuery) => {
    const rows = await store.events.listMessagesByRun(threadId, runId, pageOf(query, query.limit + 1))
    return { json: trimmed(rows, query.limit, query.after_seq !== undefined) }
  }

  const ofRunAlone = async ({ params, query }: Call<unknown, PageQuery>) => {
    const id = params.run_id!
    const run = await store.runs.get(id)
    if (!run) throw fail('run_not_found', { id })
    return ofRun(run.thread_id, id, query)
  }

  const events = async ({ params, query }: Call<unknown, v.InferOutput<typeof eventsQuery>>) => {
    const types = query.event_types?.split(',').filter(Boolean)
    const list = await store.events.listEvents(params.thread_id!, params.run_id!, {
      limit: query.limit,
      ...(types?.length && { types }),
      ...(query.after_seq !== undefined && { after: query.after_seq })
    })
    return { json: list }
  }

  const usage = async ({ params }: Call) => ({
    json: { thread_id: params.thread_id!, ...(await store.runs.tokens(params.thread_id!)) }
  })

  const thread = '/api/threads/{thread_id}'
  const reading = { method: 'GET', access: 'user', permission: 'runs:read' } as const
  const below = { ...reading, thread: 'read' } as const
  return [
    route({ ...below, path: `${thread}/messages`, query: pageQuery, handler: ofThread }),
    route({ ...below, path: `${thread}/messages/page`, query: backwardQuery, handler: pageOfThread }),
    route({
      ...below,
      path: `${thread}/runs/{run_id}/messages`,
      query: pageQuery,
      handler: ({ params, query }) => ofRun(params.thread_id!, params.run_id!, query)
    }),
    route({ ...reading, path: '/api/runs/{run_id}/messages', query: pageQuery, handler: ofRunAlone }),
    route({ ...below, path: `${thread}/runs/{run_id}/events`, query: eventsQuery, handler: events }),
    route({ ...below, permission: 'threads:read', path: `${thread}/token-usage`, handler: usage })
  ]
}
