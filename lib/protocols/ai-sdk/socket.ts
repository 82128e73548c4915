// The AI SDK's chat over one WebSocket: messages that are sent, answers that are read again, and stops, each by the id of its request.
import * as v from 'valibot'
import { Failure, Refused } from '../../base/errors.ts'
import { asUser } from '../../base/scope.ts'
import { isInFlight, isObject, type JsonObject, type Run } from '../../base/types.ts'
import { parseJson } from '../../http/body.ts'
import { MessageQueue } from '../../http/message-queue.ts'
import { HANDLED, requirePermission, type UserCall } from '../../http/route.ts'
import { check, integer, jsonObject, objectOf } from '../../http/schema.ts'
import { acceptWebSocket, PING, POLICY, type TextSocket, textFrames } from '../../http/web-socket.ts'
import { Authorizer } from '../../routes/authorization.ts'
import { readerOf } from '../../routes/join-request.ts'
import { alreadyEnded } from '../../routes/run-request.ts'
import type { Services } from '../../routes/services.ts'
import type { ThreadsJoiner } from '../../run/delivery/thread-joiner.ts'
import { type Selection, TranslatedFeed, type View } from '../feed.ts'
import { visibleThread } from '../threads.ts'
import { PROTOCOL } from './ids.ts'
import { ANSWERED, type ChatState, type Chunk, TRANSLATION } from './translate.ts'

/** Answers that one socket reads at once. */
const REQUESTS_MAX = 32

const id = v.pipe(v.string(), v.minLength(1), v.maxLength(512))
const request = objectOf({
  type: v.picklist(['send', 'resume', 'abort']),
  requestId: v.pipe(v.string(), v.minLength(1), v.maxLength(256)),
  id: v.optional(id),
  body: v.nullish(jsonObject),
  // Of a `resume`: the last chunk that came, and the run at which its request began to count, as `start` has said: the one that was sent, or
  // the first of the message, which may have several.
  lastSequence: v.nullish(integer({ min: 0 })),
  run: v.nullish(id)
})
type Request = v.InferOutput<typeof request>

/** What the chat's routes do. */
interface Chats {
  /** @throws Failure as the route that sends */
  send(call: UserCall, given: JsonObject, more: JsonObject): Promise<Run>
  /** The runs of a thread's newest message, in order. */
  runsOf(threadId: string): Promise<readonly Run[]>
  readonly selection: Selection<Chunk>
}

/** Takes a call over as the socket of a chat. */
export function openChatSocket(services: Services, call: UserCall, chats: Chats): Promise<typeof HANDLED> {
  return services.registry.streams.hold(call.user.id, async (place) => {
    const socket = acceptWebSocket(call, { maxBytes: services.config.server.body_bytes })
    const chat = new ChatSocket(services, call, chats)
    const { readers } = services.registry
    const reader = readerOf(services, call)
    const reading = { writer: socket, reader, heartbeat: PING, heardAt: () => socket.heardAt() }
    chat.begin(
      socket,
      readers.joinThreads({ ...reading, onDrain: () => chat.flush() }, place, () => {})
    )
    return HANDLED
  })
}

class ChatSocket {
  readonly #services: Services
  readonly #call: UserCall
  readonly #chats: Chats
  /** The run that each request reads, until all of it was sent. */
  readonly #reading = new Map<string, Run>()
  #joiner!: ThreadsJoiner
  #messages!: MessageQueue

  constructor(services: Services, call: UserCall, chats: Chats) {
    this.#services = services
    this.#call = call
    this.#chats = chats
  }

  begin(socket: TextSocket, joiner: ThreadsJoiner): void {
    this.#joiner = joiner
    // One after the other: an abort is of a request before it.
    const answer = (text: string) => this.#take(text)
    this.#messages = new MessageQueue({ socket, share: this.#call.share, stream: joiner, answer })
    this.#messages.open()
  }

  /** What waits for space is sent. */
  flush(): void {
    this.#messages.flush()
  }

  async #take(text: string): Promise<void> {
    const asked = frameIn(text)
    if (asked === null) return this.#messages.close(POLICY, 'a message is no request')
    try {
      if (!(await readerOf(this.#services, this.#call).isValid?.())) return this.#messages.reset('revoked')
      await asUser(this.#call.user.id, () => this.#answer(check(request, asked, 'body'), asked))
    } catch (error) {
      const isTheirs = error instanceof Failure
      if (!isTheirs) this.#services.log.error({ err: error }, 'a request of a chat’s socket failed')
      const errorText = isTheirs ? error.message : 'Internal Server Error'
      this.#report({ type: 'error', requestId: String(asked.requestId).slice(0, 256), errorText })
    }
  }

  #answer(asked: Request, given: JsonObject): Promise<void> {
    if (asked.type === 'abort') return this.#abort(asked)
    if (asked.id === undefined) throw new Refused(422, 'id: the request names no chat')
    if (this.#reading.has(asked.requestId)) throw new Refused(409, 'requestId: it is in use')
    if (this.#reading.size >= REQUESTS_MAX)
      throw new Refused(429, `A socket reads at most ${REQUESTS_MAX} answers at once`)
    return asked.type === 'send' ? this.#send(asked, given) : this.#resume(asked, asked.id)
  }

  async #send({ requestId, body }: Request, given: JsonObject): Promise<void> {
    requirePermission(this.#call, 'runs:create')
    const { id, messages, trigger, messageId } = given
    const chat = {
      ...body,
      id,
      messages,
      ...(trigger !== undefined && { trigger }),
      ...(messageId != null && { messageId })
    }
    // The number of a chunk never names two.
    const run = await this.#chats.send(this.#call, chat as JsonObject, { durability: 'sync' })
    this.#read(requestId, [run], -1)
  }

  /** Also of an answer that has ended meanwhile: the page may have half of it. */
  async #resume({ requestId, lastSequence, run }: Request, chatId: string): Promise<void> {
    const threadId = await visibleThread(this.#services, this.#call, PROTOCOL, chatId)
    if (threadId !== null) await this.#ask('read', threadId)
    const runs = threadId === null ? [] : await this.#chats.runsOf(threadId)
    if (runs.length === 0) return this.#report({ type: 'no-active', requestId })
    // Another message may have been sent since: its numbers are others.
    const at = run == null ? 0 : runs.findIndex(({ run_id }) => run_id === run)
    if (at < 0) return this.#read(requestId, runs, -1)
    this.#read(requestId, runs.slice(at), lastSequence ?? -1)
  }

  #read(requestId: string, runs: readonly Run[], after: number): void {
    const run = runs.at(-1)!
    this.#report({ type: 'start', requestId, run: runs[0]!.run_id })
    const { readers } = this.#services.registry
    const numbered = new Numbered(requestId, after)
    const viewOf = (one: Run) => ({
      translation: one.run_id === run.run_id ? TRANSLATION : ANSWERED,
      ...numbered.ofRun(),
      selection: () => this.#chats.selection
    })
    this.#reading.set(requestId, run)
    const start = {
      after: runs[0]!.ordinal - 1,
      feed: (one: Run, log: ConstructorParameters<typeof TranslatedFeed>[1]) =>
        new TranslatedFeed(one, log, viewOf(one)),
      onEnd: () => {
        this.#reading.delete(requestId)
        this.#report({ type: 'end', requestId })
      }
    }
    this.#joiner.add(requestId, start, readers.runOnly(run, runs.slice(0, -1)))
    this.#joiner.pump()
  }

  /** Its user has stopped the answer: what has come of it is kept. */
  async #abort({ requestId }: Request): Promise<void> {
    const run = this.#reading.get(requestId)
    if (!run) return
    this.#reading.delete(requestId)
    this.#joiner.drop(requestId)
    requirePermission(this.#call, 'runs:cancel')
    await this.#ask('update', run.thread_id)
    const { runs, store } = this.#services
    const now = await store.runs.get(run.run_id)
    if (now && isInFlight(now)) await runs.cancel(now, 'interrupt', true).catch(alreadyEnded)
  }

  async #ask(action: string, threadId: string): Promise<void> {
    const { policy } = this.#services
    if (policy) await new Authorizer(this.#services, policy.askFor(this.#call)).thread(action, threadId)
  }

  #report(frame: JsonObject): void {
    this.#messages.send(frame)
  }
}

/** null: it is none. */
function frameIn(text: string): JsonObject | null {
  try {
    const value = parseJson(Buffer.from(text))
    return isObject(value) && typeof value.requestId === 'string' ? value : null
  } catch {
    return null
  }
}

/** Chunks numbered from 0 over the runs of one request, one after the other: those behind one of them are sent. */
class Numbered {
  readonly #head: string
  readonly #after: number
  /** Number of the first chunk that was not seen yet. */
  #next = 0

  constructor(requestId: string, after: number) {
    this.#head = `{"type":"chunk","requestId":${JSON.stringify(requestId)},"sequence":`
    this.#after = after
  }

  /** How the next run is shown. */
  ofRun(): Required<Pick<View<ChatState, Chunk>, 'encoding' | 'isPast'>> {
    const first = this.#next
    return {
      encoding: { isOfOne: true, bytes: (chunks) => this.#frames(first, chunks) },
      isPast: (_, { state }) => first + state.count <= this.#after + 1
    }
  }

  #frames(first: number, chunks: readonly Chunk[]): Buffer {
    const numbered = chunks.map(({ number, json }) => ({ sequence: first + number, json }))
    this.#next = first + (chunks.at(-1)?.number ?? -1) + 1
    const fresh = numbered.filter(({ sequence }) => sequence > this.#after)
    return textFrames(fresh.map(({ sequence, json }) => `${this.#head}${sequence},"chunk":${json}}`))
  }
}
