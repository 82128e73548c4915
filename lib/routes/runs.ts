// Runs: create (in the background, as a stream, waiting), list, get, cancel, join.
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { type Call, HANDLED, type Reply, requirePermission, type Route, route } from '../http/route.ts'
import { jsonList } from '../http/reply.ts'
import { listIn } from '../http/request.ts'
import { objectOf, queryBoolean, queryInteger } from '../http/schema.ts'
import { ROLLED_BACK } from '../run/run-end.ts'
import { graceOf } from '../run/run-kwargs.ts'
import type { JoinRequest } from '../run/delivery/joiner.ts'
import type { Place } from '../run/delivery/streams.ts'
import { readPosition } from '../run/log/frame.ts'
import { isVisible } from '../base/scope.ts'
import type { StreamWriter } from '../base/stream-writer.ts'
import { isInFlight, type JsonObject, type Run } from '../base/types.ts'
import { createdView, finalValuesOf, runOf, runView } from './run-view.ts'
import {
  endsByLeaving,
  filterQuery,
  modesIn,
  openEvents,
  positionText,
  readerOf,
  wantsSnapshot,
  wantsStream
} from './join-request.ts'
import {
  arrayOf,
  nextNamed,
  nothing,
  one,
  placed,
  position,
  ref,
  repeatable,
  selectable,
  stream as streamed,
  text
} from './answers.ts'
import { startingRun } from './authorization.ts'
import { pick } from './page.ts'
import { alreadyEnded, orderOf, type RunBody, runBody, startStateless, statelessOrder } from './run-request.ts'
import type { Services } from './services.ts'
import { waitForEnd } from './wait.ts'

const cancelQuery = objectOf({
  wait: v.optional(queryBoolean, 'false'),
  action: v.optional(v.picklist(['interrupt', 'rollback']))
})
type CancelCall = Call<unknown, v.InferOutput<typeof cancelQuery>>
/** LangGraph's SDK sends this limit by default. */
const LIBRARY_LIMIT = 10
/** Default limit of a list [contract 3.1]. */
const LISTED = 100
/** Total size of `kwargs` shown in a list; runs beyond it are listed without. */
const LISTED_BYTES = 2 * 1024 * 1024
const listQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 1000 }), String(LISTED)),
  offset: v.optional(queryInteger({ min: 0 }), '0'),
  status: v.optional(v.picklist(['pending', 'running', 'success', 'error', 'timeout', 'interrupted']))
})

export function runRoutes(services: Services): Route[] {
  const { config, store, registry, runs, states } = services

  // ------------------------------------------------------------------------------------------------ create

  const create = async (call: Call<RunBody>): Promise<Run> => {
    const order = await orderOf(services, call)
    const threadId = call.params.thread_id!
    if (call.body.if_not_exists === 'create' && (await store.threads.ownerOf(threadId)) === undefined)
      return runs.startStateless(statelessOrder(call, order, threadId))
    return runs.start(threadId, order)
  }

  const createStateless = (call: Call<RunBody>): Promise<Run> => startStateless(services, call)

  /** Keeps the thread that was made for a run, while its response is open and for a while after. */
  const keeping = (run: Run, wire: Pick<StreamWriter, 'onClose'>, isNew: boolean): void => {
    if (graceOf(run) !== null) wire.onClose(services.removals.hold(run.thread_id, isNew))
  }

  /** Reserves a stream before the run is created: refusing afterwards would make the client retry and start a second run. */
  const holdingPlace = <T>(call: Call, open: (place: Place) => Promise<T>): Promise<T> =>
    registry.streams.hold(call.payer, open)

  const background = (run: Run): Reply => ({ json: createdView(run), headers: headersOf(run, 'stream') })

  const stream = (call: Call<RunBody>, made: () => Promise<Run>): Promise<typeof HANDLED> =>
    holdingPlace(call, async (place) => {
      const run = await made()
      const wire = openEvents(services, call, headersOf(run, 'stream'))
      keeping(run, wire, true)
      const modes = call.body.stream_mode ?? null
      await registry.readers.join(run, { ...readingOf(call), wire, modes, isCreator: true }, place)
      return HANDLED
    })

  const waitForNew = (call: Call<RunBody>, made: () => Promise<Run>): Promise<typeof HANDLED> =>
    holdingPlace(call, async (place) => {
      const run = await made()
      return wait(call, run, place, headersOf(run, 'join'), true)
    })

  const wait = (call: Call, run: Run, place: Place, headers: Record<string, string>, isNew = false) => {
    const endsRun = endsByLeaving(call)
    return waitForEnd(services, call, place, {
      run,
      headers,
      isTheirs: isNew || endsRun,
      endsRun,
      answerOf: (ended) => finalJson(ended, call)
    })
  }

  /** Final values of a run, or its error; never null, which some clients cannot parse. */
  const finalJson = async (run: Run, call: Call): Promise<string> => {
    const stop = call.dialect.stopOf(run)
    if (stop) return JSON.stringify({ __error__: stop, status: run.status, error: stop.message })
    if (run.status === 'error' || run.status === 'timeout') {
      const message = run.error ?? 'The run failed'
      const error = await errorNameOf(run)
      return JSON.stringify({ __error__: { error, message }, status: run.status, error: message })
    }
    const final = await finalValuesOf(run, states, registry.readers)
    return final ?? JSON.stringify({ status: run.status, error: run.error })
  }

  /** The error type that the agent reported. */
  const errorNameOf = async ({ thread_id, run_id }: Run): Promise<string> => {
    const [told] = await store.events.listEvents(thread_id, run_id, { types: ['run_error'], limit: 1 }, null)
    const name = told?.metadata.error_type
    return typeof name === 'string' ? name : 'RunFailed'
  }

  // --------------------------------------------------------------------------------------- look at, cancel

  /** The run of a path, for joining. A live run is not read from the store, but has the same visibility: own and ownerless [Store 1]. */
  const watchedRunOf = async (call: Call): Promise<Run> => {
    const { params, user } = call
    const run = registry.find(params.run_id!)?.run
    const isOfThread = run?.thread_id === params.thread_id
    return run && user && isOfThread && isVisible(run, user.id) ? run : runOf(services, call)
  }

  const list = async (call: Call<unknown, v.InferOutput<typeof listQuery>>): Promise<Reply> => {
    const { params, query } = call
    const { offset, status } = query
    const limit = isFrontEnd(call) && query.limit === LIBRARY_LIMIT ? LISTED : query.limit
    // One more, to see whether there are more.
    const asked = { limit: limit + 1, offset, kwargsBytes: LISTED_BYTES, ...(status && { status }) }
    const page = await store.runs.list(params.thread_id!, asked)
    const fields = listIn(call, 'select')
    const { jsonText, count } = await jsonList(page.slice(0, limit).map(viewFor(call)), (view) =>
      JSON.stringify(fields ? pick(view, fields) : view)
    )
    // Long runs end a page before its limit does: who went on behind that would miss the rest.
    return { jsonText, ...(count < page.length && { headers: { 'X-Pagination-Next': String(offset + count) } }) }
  }

  /** Where a rolled-back run is deleted, it does not exist even before. */
  const read = async (call: Call): Promise<Reply> => {
    const run = await runOf(services, call)
    if (run.error === ROLLED_BACK && call.dialect.rolledBackRun === 'delete')
      throw fail('run_not_found', { id: run.run_id })
    return { json: viewFor(call)(run) }
  }

  const cancel = async (call: CancelCall): Promise<Reply> => {
    const run = await runOf(services, call)
    const { action: how = 'interrupt', wait } = call.query
    const { endedRun, rolledBackRun } = call.dialect
    const removes = how === 'rollback' && rolledBackRun === 'delete'
    const mayHaveEnded = endedRun === 'ignore'
    const status = wait ? 204 : 202
    if (mayHaveEnded && !isInFlight(run)) return { status }
    await runs.cancel(run, how, wait || removes).catch((error) => {
      if (!mayHaveEnded) throw error
      alreadyEnded(error)
    })
    if (removes) await runs.remove(run)
    return { status }
  }

  const remove = async (call: Call): Promise<Reply> => {
    const run = await runOf(services, call)
    if (!(await runs.remove(run))) throw fail('run_not_found', { id: run.run_id })
    return { status: 204 }
  }

  const join = async (call: Call): Promise<typeof HANDLED> => {
    const run = await runOf(services, call)
    if (wantsStream(call)) return joined(call, run)
    return holdingPlace(call, (place) => wait(call, run, place, { Location: `${pathOf(run)}/join` }))
  }

  const joined = (call: Call, run: Run): Promise<typeof HANDLED> =>
    holdingPlace(call, async (place) => {
      const headers = { Location: `${pathOf(run)}/stream${filterQuery(call)}` }
      const wire = openEvents(services, call, headers)
      keeping(run, wire, false)
      const asks = { modes: modesIn(call), isSnapshot: wantsSnapshot(call), endsRun: endsByLeaving(call) }
      const request = { ...readingOf(call), wire, ...asks }
      await registry.readers.join(run, request, place)
      return HANDLED
    })

  /** POST with `action` cancels first. GET ignores it, because a GET must not change anything. */
  const cancelThenStream = async (call: CancelCall): Promise<Reply | typeof HANDLED> => {
    const run = await runOf(services, call)
    const { action: how, wait: untilEnded } = call.query
    if (how) requirePermission(call, 'runs:cancel')
    if (how) await runs.cancel(run, how, untilEnded)
    if (how && untilEnded) return { status: 204 }
    return joined(call, run)
  }

  const readingOf = (call: Call): Pick<JoinRequest, 'reader' | 'position' | 'isWithoutEnd'> => ({
    reader: readerOf(services, call),
    isWithoutEnd: !call.dialect.hasEndFrame,
    position: readPosition(positionText(call))
  })

  const thread = '/api/threads/{thread_id}/runs'
  const run = `${thread}/{run_id}`
  /** The three ways to create a run: in the background, streaming, waiting. */
  const creators = (path: string, where: string, made: typeof create, more: { readonly thread?: 'read' } = {}) => {
    const creating = {
      ...more,
      method: 'POST',
      permission: 'runs:create',
      rule: startingRun(services),
      body: runBody,
      bodyLimit: config.server.body_bytes,
      bodyOptional: true,
      refusals: [404, 409],
      reads: repeatable
    } as const
    return [
      route({
        ...creating,
        path,
        summary: where === ' ' ? 'Start a run in the background' : `Start a run${where}, in the background`,
        answers: placed(one(ref('Run'))),
        handler: async (call) => background(await made(call))
      }),
      route({
        ...creating,
        path: `${path}/stream`,
        isStream: true,
        summary: `Start a run${where.trimEnd()} and stream it`,
        answers: placed(streamed),
        handler: (call) => stream(call, () => made(call))
      }),
      route({
        ...creating,
        path: `${path}/wait`,
        isStream: true,
        summary: `Start a run${where.trimEnd()} and wait for its final values`,
        answers: placed(one(ref('FinalValues'))),
        handler: (call) => waitForNew(call, () => made(call))
      })
    ]
  }
  const reading = { method: 'GET', permission: 'runs:read', thread: 'read', rule: 'threads:read' } as const
  const watching = { ...reading, isStream: true, answers: streamed, refusals: [429], reads: position } as const
  const stopping = { method: 'POST', thread: 'write', query: cancelQuery } as const
  return [
    ...creators(thread, ' ', create, { thread: 'read' }),
    ...creators('/api/runs', ' on a new thread', createStateless),
    route({
      ...reading,
      link: 'thread',
      path: thread,
      query: listQuery,
      summary: 'Runs of a thread, newest first',
      answers: nextNamed(arrayOf(selectable('Run'))),
      reads: {
        query: { select: { description: 'Fields to return, repeated or separated by commas', schema: arrayOf(text) } }
      },
      handler: list
    }),
    route({ ...reading, link: 'thread', path: run, summary: 'A run', answers: one(ref('Run')), handler: read }),
    route({
      ...stopping,
      path: `${run}/cancel`,
      permission: 'runs:cancel',
      rule: 'threads:update',
      summary: 'Cancel a run',
      answers: { 202: null, 204: null },
      refusals: [409],
      handler: cancel
    }),
    route({
      method: 'DELETE',
      refusals: [409],
      path: run,
      permission: 'threads:delete',
      thread: 'write',
      rule: 'threads:delete',
      summary: 'Delete a run; its messages stay in the thread',
      answers: nothing,
      handler: remove
    }),
    route({
      ...watching,
      path: '/api/runs/{run_id}/stream',
      thread: null,
      summary: 'Join a run without knowing its thread',
      handler: async (call) => joined(call, await runOf(services, call))
    }),
    route({
      ...watching,
      link: 'thread',
      path: `${run}/join`,
      summary: 'Join a run as a stream, or wait for its final values',
      answers: {
        200: {
          description: 'Events until `end`, or the final values if the caller accepts only JSON',
          events: true,
          schema: ref('FinalValues')
        }
      },
      handler: join
    }),
    route({
      ...watching,
      link: 'thread',
      path: `${run}/stream`,
      summary: 'Join a run: from its first frame, after a cursor, or from a snapshot',
      handler: async (call) => joined(call, await watchedRunOf(call))
    }),
    route({
      ...stopping,
      path: `${run}/stream`,
      permission: 'runs:read',
      rule: 'threads:read',
      summary: 'Join a run, after cancelling it with `action`',
      answers: { ...streamed, ...nothing },
      refusals: [409, 429],
      reads: position,
      handler: cancelThenStream
    })
  ]
}

/** Who reads by a link sees what was asked of a run and how it went, and not how it was configured. */
function viewFor({ grant }: Pick<Call, 'grant'>): (run: Run) => JsonObject {
  if (!grant?.link) return runView
  return (run) => ({ ...runView(run), kwargs: { input: run.kwargs.input ?? null, config: null } })
}

/** Content-Location identifies the run, Location is where to resume its stream. */
function headersOf(run: Run, answer: 'stream' | 'join'): Record<string, string> {
  return { 'Content-Location': `/api${pathOf(run)}`, Location: `${pathOf(run)}/${answer}` }
}

/** Without the API prefix, which clients add [langgraph 1.1]. */
function pathOf({ thread_id, run_id }: Run): string {
  return `/threads/${thread_id}/runs/${run_id}`
}

/** DeerFlow's front end uses this prefix. It rebuilds the conversation from the list of runs and expects all of them. */
function isFrontEnd({ req }: Call<unknown, unknown>): boolean {
  return req.url?.startsWith('/api/langgraph/') ?? false
}
