// AG-UI: run an agent, come back to a run, and the thread as TanStack's pages read it. https://docs.ag-ui.com
import { createHash } from 'node:crypto'
import { fail, Refused } from '../../base/errors.ts'
import { isInFlight, type JsonObject, type Run, timestamp } from '../../base/types.ts'
import { HANDLED, type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { KEY_MAX } from '../../routes/run-request.ts'
import { searchParams } from '../../http/request.ts'
import { openStream } from '../../http/streaming-response.ts'
import { anEvent, anObject, arrayOf, openly, orNull, repeatable } from '../../routes/answers.ts'
import { positionText } from '../../routes/join-request.ts'
import { runOf } from '../../routes/run-view.ts'
import type { Services } from '../../routes/services.ts'
import { entriesOf } from '../../routes/turn.ts'
import { inputNames, userQuestions } from '../client-tools.ts'
import { throughDoor } from '../door.ts'
import { PART_FILTER, partsOfMessages } from '../parts.ts'
import type { Mark } from '../marks.ts'
import { isBehindInThread, isPastInThread, type Place, placedEvents, placeText, readPlace } from '../places.ts'
import { begunBefore, requestKeyOf } from '../repeats.ts'
import { sentPlace, streamRun } from '../stream.ts'
import {
  aboutThread,
  newestRuns,
  openQuestions,
  runsInState,
  standingOf,
  startRun,
  visibleThread,
  withRuns
} from '../threads.ts'
import { dialectIn, offersInput, type RunInput, runBodyOf, runInput } from './input.ts'
import { pageMessages } from './messages.ts'
import { type AgUiEvent, type Dialect, interruptOf, namesOf, translationIn } from './translate.ts'

export const PROTOCOL = 'ag-ui'
/** Names of runs: TanStack's are no UUIDs. */
const RUNS = 'ag-ui-run'
const EMPTY = Buffer.alloc(0)

const PAGE = openly({ messages: arrayOf(anObject) }, { activeRun: orNull(anObject), interrupts: orNull(anObject) })

export function agUiRoutes(services: Services): Route[] {
  const { config } = services
  const { run, connect, again, page } = agUi(services)
  /** By its id, or as its client called it, which is what `RUN_STARTED` says. */
  const byPath = async (call: UserCall) => {
    const { thread_id, run_id } = call.params
    const known = await knownRun(services, run_id!)
    return again(call, known?.thread_id === thread_id ? known! : await runOf(services, call), '1.0')
  }
  const join = async (call: UserCall): Promise<Reply | typeof HANDLED> => {
    const query = searchParams(call)
    const runId = query.get('runId')
    if (runId === null) return page(call, query.get('threadId') ?? '')
    const known = await knownRun(services, runId)
    if (!known) throw fail('run_not_found', { id: runId })
    return again(call, known, '0.0')
  }
  const named = ({ body }: UserCall) => (body as RunInput).threadId
  const stream = { 200: { description: 'Events of AG-UI', type: 'text/event-stream', schema: anEvent } } as const
  const posting = {
    method: 'POST',
    isStream: true,
    body: runInput,
    bodyLimit: config.server.body_bytes,
    answers: stream
  } as const
  const position = { headers: { 'Last-Event-ID': 'Resume after this event' } }
  const path = '/api/agui/{agent}'
  return throughDoor({ errors: 'contract', part: PROTOCOL }, [
    route({
      ...posting,
      path,
      permission: 'runs:create',
      rule: null,
      summary: 'Run an agent by AG-UI; a run that is known is joined',
      refusals: [404, 409, 410, 429],
      reads: { headers: { ...position.headers, ...repeatable.headers } },
      handler: (call) => run(call, call.params.agent!, call.body)
    }),
    route({
      ...posting,
      path: `${path}/connect`,
      permission: 'runs:read',
      rule: aboutThread(services, PROTOCOL, named),
      summary: 'The newest run of a thread from its start, behind the messages before it',
      refusals: [429],
      handler: (call) => connect(call, call.body)
    }),
    route({
      method: 'GET',
      path,
      isStream: true,
      permission: 'runs:read',
      rule: aboutThread(services, PROTOCOL, (call) => searchParams(call).get('threadId')),
      summary: 'Join a run by `runId`, or the messages of `threadId` and the run that is under way',
      answers: { 200: { ...stream[200], also: { 'application/json': PAGE } } },
      refusals: [404, 410, 429],
      reads: {
        ...position,
        query: { runId: 'The run, as its client called it', threadId: 'The thread', offset: '`-1`: from the start' }
      },
      handler: join
    }),
    route({
      method: 'GET',
      path: '/api/agui/threads/{thread_id}/runs/{run_id}',
      isStream: true,
      permission: 'runs:read',
      thread: 'read',
      rule: 'threads:read',
      summary: 'A run as events of AG-UI, from its start or after a position',
      answers: stream,
      refusals: [404, 410, 429],
      reads: position,
      handler: byPath
    })
  ])
}

async function knownRun({ store }: Pick<Services, 'store'>, name: string): Promise<Run | null> {
  const alias = await store.aliases.get(RUNS, name)
  return store.runs.get(alias?.run_id ?? name)
}

/** What the routes of AG-UI do, for those that speak it elsewhere too. */
export function agUi(services: Services) {
  const { registry, states, writer } = services

  const view = (dialect: Dialect, after: Place | null, withInput = false) => {
    const selection = {
      filter: PART_FILTER,
      withValues: false,
      takes: ({ at, isInput }: AgUiEvent) => (withInput || !isInput) && (after === null || isBehindInThread(at, after)),
      key: `${withInput} ${after === null ? '' : placeText(after)}`
    }
    return {
      translation: translationIn(dialect),
      encoding: placedEvents,
      selection: () => selection,
      isPast: (run: Run, place: Mark<unknown>) => isPastInThread(run, place, after),
      isResumed: after !== null
    }
  }

  const again = (call: UserCall, run: Run, dialect: Dialect): Promise<typeof HANDLED> =>
    registry.streams.hold(call.user.id, async (place) => {
      const given = readPlace(positionText(call))
      const after = await sentPlace(services, run, given?.ordinal === run.ordinal ? given : null)
      return streamRun(services, call, place, { ...view(dialect, after), run, headers: headersOf(run) })
    })

  const run = async (call: UserCall, agent: string, given: RunInput): Promise<typeof HANDLED> => {
    const dialect = dialectIn(given)
    const request = requestKeyOf(call)
    const known = await knownRun(services, given.runId)
    if (known && namesOf(known).threadId !== given.threadId) throw new Refused(409, 'This run is of another thread')
    if (known) return again(call, known, dialect)
    const earlier = await begunBefore(services, call, request)
    if (earlier) return again(call, earlier, dialect)
    // The path names one that is there; a name of one's own is for Colloquy's clients.
    if (!(await services.assistants.get(agent, call.user.id))) throw fail('assistant_unknown', { id: agent })
    return registry.streams.hold(call.user.id, async (place) => {
      const threadId = await visibleThread(services, call, PROTOCOL, given.threadId)
      const standing = threadId === null ? null : await standingOf(services, threadId)
      const body = await runBodyOf(given, {
        agent,
        isOfGraphs: states.isOfGraphs,
        takesClientContext: services.agent.takesClientContext === true,
        questions: standing?.questions ?? [],
        stored: (ids) => standing?.messagesWith(ids) ?? [],
        takes: offersInput(given) ? await inputNames(services, agent, call.user.id) : () => false,
        history: async () => (threadId === null ? [] : entriesOf(states, threadId, call.user.id))
      })
      // A request that is sent twice begins one run, also while the first is on its way.
      const started = await startRun(services, call, {
        protocol: PROTOCOL,
        name: given.threadId,
        body,
        key: keyOf(given),
        request
      })
      const alias = {
        user_id: call.user.id,
        protocol: RUNS,
        text: given.runId,
        thread_id: started.thread_id,
        run_id: started.run_id
      }
      await writer.write({ name: 'alias.put', alias, now: timestamp() })
      return streamRun(services, call, place, { ...view(dialect, null), run: started, headers: headersOf(started) })
    })
  }

  const storedIn = async (threadId: string, user: string): Promise<readonly JsonObject[]> =>
    (await entriesOf(states, threadId, user, 1))[0]?.messages ?? []

  /** Nothing of the thread, also where it is somebody else's: an empty answer. */
  const nothing = (call: UserCall): typeof HANDLED => {
    openStream(call).end(EMPTY)
    return HANDLED
  }

  const connect = async (call: UserCall, given: RunInput): Promise<typeof HANDLED> => {
    const threadId = await visibleThread(services, call, PROTOCOL, given.threadId)
    const all = threadId === null ? [] : await newestRuns(services, threadId, RUNS_MAX)
    if (threadId === null || all.length === 0) return nothing(call)
    const stored = all.length === 1 ? [] : await storedIn(threadId, call.user.id)
    const [last, ...before] = runsInState(all, await withRuns(services, call, threadId, stored))
    if (!last) return nothing(call)
    return registry.streams.hold(call.user.id, async (place) =>
      streamRun(services, call, place, {
        ...view(dialectIn(given), null, true),
        run: last,
        before: before.toReversed(),
        headers: headersOf(last)
      })
    )
  }

  /** As TanStack's pages read a thread when they are loaded. */
  const page = async (call: UserCall, name: string): Promise<Reply> => {
    const threadId = name === '' ? null : await visibleThread(services, call, PROTOCOL, name)
    if (threadId === null) return { json: { messages: [], activeRun: null, interrupts: null, page: null } }
    const [stored, [last], questions] = await Promise.all([
      storedIn(threadId, call.user.id),
      newestRuns(services, threadId),
      openQuestions(services, threadId)
    ])
    const messages = pageMessages(stored)
    const calls = partsOfMessages(stored).flatMap((part) => (part.type === 'called' ? [part] : []))
    const pending = userQuestions(questions).flatMap((question) => interruptOf(question, calls))
    const interrupts = last && pending.length > 0 ? { runId: namesOf(last).runId, pending } : null
    const activeRun = last && isInFlight(last) ? { runId: namesOf(last).runId } : null
    return { json: { messages, activeRun, interrupts, page: null } }
  }

  return { run, connect, again, page }
}

/** A name that is too long for a key goes into it as a digest. */
function keyOf({ runId }: RunInput): string {
  const key = `run ${runId}`
  return key.length <= KEY_MAX ? key : `run ${createHash('sha256').update(runId).digest('base64url')}`
}

/** Runs of a thread that are shown again to who connects to it. */
const RUNS_MAX = 100

function headersOf({ thread_id, run_id }: Run): Record<string, string> {
  return { 'Content-Location': `/api/agui/threads/${thread_id}/runs/${run_id}` }
}
