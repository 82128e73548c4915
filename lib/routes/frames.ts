// Readers of a run, and the full data of oversized frames by number.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fail } from '../errors.ts'
import { type Call, type Reply, HANDLED } from '../http/call.ts'
import { wantedRange } from '../http/range.ts'
import { boundReading } from '../http/reply.ts'
import { isGone } from '../http/reset.ts'
import { type Route, route } from '../http/route.ts'
import { findWhole, wholeBytes } from '../run/log/oversized-reader.ts'
import type { Services } from './services.ts'

export function frameRoutes({ config, store, registry }: Pick<Services, 'config' | 'store' | 'registry'>): Route[] {
  const get = async ({ params, req, res }: Call): Promise<Reply | typeof HANDLED> => {
    const id = params.run_id!
    const run = await store.runs.get(id)
    if (!run || run.thread_id !== params.thread_id!) throw fail('run_not_found', { id })
    const n = Number(/^\d{1,15}$/.exec(params.n!)?.[0] ?? -1)
    const log = await registry.logOf(run)
    const whole = n < 0 ? null : await findWhole(log, n)
    if (!whole) throw fail('frame_not_found', { n: params.n!, id })
    const size = whole.bytes
    // A frame never changes.
    const tag = `"${id}-${n}"`
    const range = wantedRange(req, { size, tag })
    if (range === 'outside') throw fail('range_outside', null, { 'Content-Range': `bytes */${size}` })
    boundReading(res, config.streams.stall_ms)
    const { start, end } = range ?? { start: 0, end: size - 1 }
    res.writeHead(range ? 206 : 200, {
      'Content-Type': 'application/json',
      'Content-Length': end - start + 1,
      ...(range && { 'Content-Range': `bytes ${start}-${end}/${size}` }),
      'Accept-Ranges': 'bytes',
      'Cache-Control': 'private, no-cache',
      'X-Content-Type-Options': 'nosniff',
      ETag: tag
    })
    if (req.method === 'HEAD') {
      res.end()
      return HANDLED
    }
    await pipeline(Readable.from(wholeBytes(log, n, whole, start, end), { objectMode: false }), res).catch((error) => {
      if (!isGone(error)) throw error
    })
    return HANDLED
  }

  const joiners = async ({ params }: Call): Promise<Reply> => {
    const id = params.run_id!
    const run = await store.runs.get(id)
    if (!run || run.thread_id !== params.thread_id!) throw fail('run_not_found', { id })
    const standing = registry.joinersOf(id)
    const views = standing.map(({ since, modes, next, isFull }) => ({
      since,
      modes: [...modes],
      next,
      is_full: isFull
    }))
    return { json: { joiners: views } }
  }

  return [
    route({
      method: 'GET',
      path: '/api/threads/{thread_id}/runs/{run_id}/joiners',
      access: 'user',
      permission: 'runs:read',
      thread: 'read',
      handler: joiners
    }),
    route({
      method: 'GET',
      path: '/api/threads/{thread_id}/runs/{run_id}/frames/{n}',
      access: 'user',
      permission: 'runs:read',
      thread: 'read',
      handler: get
    })
  ]
}
