// Readers of a run, and the full data of oversized frames by number.
import { fail } from '../base/errors.ts'
import { type Call, type HANDLED, type Reply, type Route, route } from '../http/route.ts'
import { sendRanged } from '../http/range.ts'
import { findWhole, wholeBytes } from '../run/log/oversized-reader.ts'
import { anything, arrayOf, one, partly, ranged, shaped, text, yesNo } from './answers.ts'
import { kindsFor } from './join-request.ts'
import { runOf } from './run-request.ts'
import type { Services } from './services.ts'

export function frameRoutes(services: Pick<Services, 'config' | 'store' | 'registry'>): Route[] {
  const { config, registry } = services

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
