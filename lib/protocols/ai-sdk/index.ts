// The AI SDK's chat: send, come back, stop, and the messages so far. https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
import { fail } from '../../base/errors.ts'
import { isInFlight, type JsonObject, type Run } from '../../base/types.ts'
import { type Call, type HANDLED, type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { check } from '../../http/schema.ts'
import { anObject, arrayOf, repeatable, text } from '../../routes/answers.ts'
import { positionText } from '../../routes/join-request.ts'
import type { Services } from '../../routes/services.ts'
import { entriesOf } from '../../routes/turn.ts'
import type { Selection } from '../feed.ts'
import { inputNames } from '../client-tools.ts'
import { throughDoor } from '../door.ts'
import { PART_FILTER } from '../parts.ts'
import type { Mark } from '../marks.ts'
import { isBehindInThread, isPastInThread, type Place, placedEvents, placeText, readPlace } from '../places.ts'
import { begunBefore, type RequestKey, requestKeyOf } from '../repeats.ts'
import { sentPlace, streamRun } from '../stream.ts'
import { aboutThread, newestRuns, openQuestions, startRun, stopThread, visibleThread, withRuns } from '../threads.ts'
import { MESSAGE_KEY, messageIdOf, PROTOCOL } from './ids.ts'
import { type ChatBody, chatBody, offersInput, runBodyOf } from './input.ts'
import { messageIds, uiMessages } from './messages.ts'
import { openChatSocket } from './socket.ts'
import { ANSWERED, type Chunk, TRANSLATION } from './translate.ts'

/** What a stream of chunks has around them. */
const STREAM_HEADERS = { 'X-Vercel-AI-UI-Message-Stream': 'v1' }
const DONE = Buffer.from('data: [DONE]\n\n')

/** Runs that one message goes through, as many as are shown of it. */
const GOING_ON_MAX = 100
/** Runs whose answers go on in another's message. */
const CONTINUED_MAX = 1000

export function aiSdkRoutes(services: Services): Route[] {
  const { config, registry, states, store } = services

  const view = (after: Place | null) => {
    const selection = selectionAfter(after)
    return {
      translation: TRANSLATION,
      earlier: ANSWERED,
      encoding: placedEvents,
      selection: () => selection,
      isPast: (run: Run, place: Mark<unknown>) => isPastInThread(run, place, after),
      isResumed: after !== null,
      last: DONE
    }
  }

  const chat = (call: UserCall<ChatBody>): Promise<typeof HANDLED> =>
    registry.streams.hold(call.user.id, async (place) => {
      const request = requestKeyOf(call)
      const run =
        (await begunBefore(services, call, request)) ?? (await sendChat(services, call, call.body, { request }))
      return streamRun(services, call, place, { ...view(null), run, headers: { ...STREAM_HEADERS, ...namesOf(run) } })
    })

  /** Nothing to go on with, also where a chat is somebody else's: a page asks for chats that are not there yet. */
  const nothing: Reply = { status: 204 }

  const reconnect = async (call: UserCall): Promise<Reply | typeof HANDLED> => {
    const threadId = await visibleThread(services, call, PROTOCOL, call.params.id!)
    const given = readPlace(positionText(call))
    const all = threadId === null ? [] : await messageRuns(services, threadId, given?.ordinal)
    const run = all.at(-1)
    if (!run) return nothing
    const after = await sentPlace(services, all.find(({ ordinal }) => ordinal === given?.ordinal) ?? run, given)
    return registry.streams.hold(call.user.id, async (place) =>
      streamRun(services, call, place, {
        ...view(after),
        run,
        // An exact tail is of one run; a replay begins where its message does.
        before: after === null ? all.slice(0, -1) : all.filter(({ ordinal }) => ordinal >= after.ordinal).slice(0, -1),
        headers: { ...STREAM_HEADERS, ...namesOf(run) }
      })
    )
  }

  const stop = async (call: UserCall): Promise<Reply> => {
    const threadId = await visibleThread(services, call, PROTOCOL, call.params.id!)
    if (threadId !== null) await stopThread(services, threadId)
    return nothing
  }

  const messages = async (call: UserCall): Promise<Reply> => {
    const name = call.params.id!
    const threadId = await visibleThread(services, call, PROTOCOL, name)
    if (threadId === null) throw fail('thread_not_found', { id: name })
    const [[entry], questions, continued, [newest]] = await Promise.all([
      entriesOf(states, threadId, call.user.id, 1),
      openQuestions(services, threadId),
      store.runs.list(threadId, { limit: CONTINUED_MAX, offset: 0, metadataKey: MESSAGE_KEY, kwargsBytes: 0 }),
      newestRuns(services, threadId)
    ])
    const isNew = newest && (isInFlight(newest) || questions.length > 0)
    const conversation = {
      messages: await withRuns(services, call, threadId, entry?.messages ?? []),
      newest: isNew ? newest.run_id : null,
      messageOf: messageIds(continued, MESSAGE_KEY)
    }
    return { json: uiMessages({ threadId, questions, ...conversation }) }
  }

  const chats = {
    send: (call: UserCall, given: JsonObject, more: JsonObject) =>
      sendChat(services, call, check(chatBody, given, 'body'), { more }),
    runsOf: (threadId: string) => messageRuns(services, threadId),
    selection: selectionAfter(null)
  }

  const path = '/api/ai/chat'
  const stream = {
    description: 'Chunks of the UI message stream v1, until `[DONE]`',
    type: 'text/event-stream',
    schema: text,
    headers: { 'X-Vercel-AI-UI-Message-Stream': '`v1`' }
  }
  const named = (call: UserCall) => call.params.id ?? null
  const reading = { permission: 'runs:read', rule: aboutThread(services, PROTOCOL, named) } as const
  return throughDoor({ errors: 'contract', part: PROTOCOL }, [
    route({
      method: 'POST',
      path,
      permission: 'runs:create',
      rule: null,
      isStream: true,
      body: chatBody,
      bodyLimit: config.server.body_bytes,
      summary: 'Send a message of an AI SDK chat, and stream the answer',
      answers: { 200: stream },
      refusals: [404, 409, 429],
      reads: repeatable,
      handler: chat
    }),
    route({
      ...reading,
      method: 'GET',
      path: `${path}/{id}/stream`,
      isStream: true,
      summary: 'Come back to the answer of a chat: the whole message again, or what follows a position',
      answers: { 200: stream, 204: null },
      refusals: [410, 429],
      reads: { headers: { 'Last-Event-ID': 'Resume after this chunk' } },
      handler: reconnect
    }),
    route({
      method: 'DELETE',
      path: `${path}/{id}/stream`,
      permission: 'runs:cancel',
      rule: aboutThread(services, PROTOCOL, named, 'update'),
      summary: 'Stop the answer of a chat; what has come of it is kept',
      answers: { 204: null },
      handler: stop
    }),
    route({
      ...reading,
      method: 'GET',
      path: `${path}/{id}`,
      permission: 'threads:read',
      summary: 'The messages of a chat, as UI messages',
      answers: { 200: { schema: arrayOf(anObject) } },
      refusals: [404],
      handler: messages
    }),
    route({
      method: 'GET',
      path: '/api/ai/ws',
      isStream: true,
      permission: 'runs:read',
      rule: null,
      lateBytes: config.server.body_bytes,
      summary: 'Chats over a WebSocket: send, come back and stop; the credential may come in the first message',
      answers: { 101: null },
      refusals: [426, 429],
      handler: (call) => openChatSocket(services, call, chats)
    })
  ])
}

function selectionAfter(after: Place | null): Selection<Chunk> {
  return {
    filter: PART_FILTER,
    withValues: false,
    takes: ({ at }) => after === null || isBehindInThread(at, after),
    key: after === null ? '' : placeText(after)
  }
}

/** Begins the run that a chat asks for. */
async function sendChat(
  services: Services,
  call: UserCall,
  chat: ChatBody,
  { more = {}, request = null }: { readonly more?: object; readonly request?: RequestKey | null }
): Promise<Run> {
  const threadId = await visibleThread(services, call, PROTOCOL, chat.id)
  const { isOfGraphs } = services.states
  const { body, key } = await runBodyOf(
    { multitask_strategy: mayCancel(call) ? 'interrupt' : 'reject', ...chat },
    {
      isOfGraphs,
      takesClientContext: services.agent.takesClientContext === true,
      takes: offersInput(chat) ? await inputNames(services, chat.assistant_id ?? null, call.user.id) : () => false,
      questions: threadId === null ? [] : await openQuestions(services, threadId),
      history: async () => (threadId === null ? [] : entriesOf(services.states, threadId, call.user.id))
    }
  )
  return startRun(services, call, { protocol: PROTOCOL, name: chat.id, body: { ...body, ...more }, key, request })
}

/** A page that closes its stream looks like one that left: what is sent next ends the answer before it, where that is allowed. */
function mayCancel(call: Call): boolean {
  return call.grant?.permissions?.has('runs:cancel') ?? true
}

/**
 * The runs of the newest message, in order: several, where it went on after an approval. None: nothing was asked yet.
 * @param ordinal of a run whose message is meant: another tab may have sent a newer one
 */
async function messageRuns(services: Services, threadId: string, ordinal?: number): Promise<readonly Run[]> {
  const newest = await newestRuns(services, threadId, GOING_ON_MAX)
  const meant = ordinal === undefined ? newest[0] : newest.find((run) => run.ordinal === ordinal)
  if (!meant) return []
  const id = messageIdOf(meant)
  if (!newest.some((run) => run.run_id === id)) return [meant]
  return newest.filter((run) => messageIdOf(run) === id).toReversed()
}

function namesOf({ thread_id, run_id }: Run): Record<string, string> {
  return { 'Content-Location': `/api/threads/${thread_id}/runs/${run_id}` }
}
