// Readers of a run, when its frames were stored, and the full data of oversized frames by number.
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { type Call, type HANDLED, type Reply, type Route, route } from '../http/route.ts'
import { sendRanged } from '../http/range.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { findWhole, wholeBytes } from '../run/log/oversized-reader.ts'
import { timesOf } from '../run/log/segment.ts'
import { timestamp } from '../base/types.ts'
import { anything, arrayOf, int, one, partly, ranged, shaped, text, time, yesNo } from './answers.ts'
import { kindsFor } from './join-request.ts'
import { runOf } from './run-view.ts'
import type { Services } from './services.ts'

/** What a store numbers frames by has 32 bits. */
const FRAME_MAX = 2 ** 31 - 1
const timesQuery = objectOf({
  from: v.optional(queryInteger({ min: 0, max: FRAME_MAX }), '0'),
  limit: v.optional(queryInteger({ min: 1, max: 2000 }), '1000')
})
type TimesQuery = v.InferOutput<typeof timesQuery>

/** Bytes of frames per read of the store, and per answer: their times are beside them. */
const READ_BYTES = 256 * 1024
const SCANNED_BYTES = 4 * 1024 * 1024

export function frameRoutes(services: Pick<Services, 'config' | 'store' | 'registry'>): Route[] {
  const { config, registry, store } = services

  const get = async (call: Call): Promise<typeof HANDLED> => {
    const { params } = call
    const run = await runOf(services, call)
    const id = run.run_id
    const n = Number(/^\d{1,15}$/.exec(params.n!)?.[0] ?? -1)
    const log = await registry.readers.logOf(run)
    const whole = n < 0 ? null : await findWhole(log, n, kindsFor(call))
    if (!whole) throw fail('frame_not_found', { n: params.n!, id })
    const body = {
      size: whole.bytes,
      // A crash may take back a frame that was shown; the next attempt may have another one in its place.
      tag: `"${id}-${log.epoch}-${n}"`,
      headers: {
        'Content-Type': 'application/json',
        'Cache-Control': 'private, no-cache',
        'X-Content-Type-Options': 'nosniff'
      },
      read: (start: number, end: number) => wholeBytes(log, n, whole, start, end)
    }
    return sendRanged(call, body, config.streams.stall_ms)
  }

  const joiners = async (call: Call): Promise<Reply> => {
    const { run_id } = await runOf(services, call)
    const views = registry.readers.joinersOf(run_id).map(({ since, modes, next, isFull }) => ({
      since,
      modes: [...modes],
      next,
      is_full: isFull
    }))
    return { json: { joiners: views } }
  }

  const times = async (call: Call<unknown, TimesQuery>): Promise<Reply> => {
    const { from, limit } = call.query
    const { key } = await runOf(services, call)
    const found: { n: number; at: string }[] = []
    let next: number | null = from
    for (let bytes = 0; next !== null && bytes < SCANNED_BYTES; ) {
      const segments = await store.frames.read(key, next, READ_BYTES)
      next = null
      for (const segment of segments) {
        for (const { n, at } of timesOf(segment)) {
          // A block may begin before `from`: its last entry up to there counts.
          const entry = { n: Math.max(n, from), at: timestamp(at) }
          if (found.at(-1)?.n === entry.n) found.pop()
          if (found.length === limit) return { json: { times: found, next: n } }
          found.push(entry)
        }
        bytes += segment.data.length
        next = segment.last + 1
      }
    }
    return { json: { times: found, next } }
  }

  const run = '/api/threads/{thread_id}/runs/{run_id}'
  const reading = { method: 'GET', permission: 'runs:read', thread: 'read', rule: 'threads:read' } as const
  const joiner = shaped({ since: text, modes: arrayOf(text), next: { type: ['integer', 'null'] }, is_full: yesNo })
  return [
    route({
      ...reading,
      path: `${run}/joiners`,
      summary: 'Readers of a run that are connected to this process',
      answers: one(shaped({ joiners: arrayOf(joiner) })),
      handler: joiners
    }),
    route({
      ...reading,
      path: `${run}/frames`,
      query: timesQuery,
      summary: 'When frames of a run were stored: those from n on, up to the next entry',
      answers: one(shaped({ times: arrayOf(shaped({ n: int, at: time })), next: { type: ['integer', 'null'] } })),
      handler: times
    }),
    route({
      ...reading,
      link: 'thread',
      path: `${run}/frames/{n}`,
      summary: 'The whole of a frame that was cut because of its size',
      answers: partly('application/json', anything),
      refusals: [416],
      reads: ranged,
      handler: get
    })
  ]
}
