// One WebSocket of protocol v2: answers commands in order and sends the events of its subscriptions. An answer never
// splits an event, and precedes the events it causes.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import type { Share } from '../../base/budget.ts'
import { MessageQueue } from '../../http/message-queue.ts'
import { PING, POLICY, type TextSocket } from '../../http/web-socket.ts'
import type { ThreadJoiner, ThreadRequest } from '../../run/delivery/thread-joiner.ts'
import type { RunFeed } from '../../run/delivery/thread-reader.ts'
import type { Reader } from '../../run/delivery/credential-revalidator.ts'
import type { RunLog } from '../../run/log/run-log.ts'
import { isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { webSocketEncoding } from './encoding.ts'
import { frameAt, seqOf } from './event.ts'
import { EventFeed } from './feed.ts'
import { isChannel, type SubscriptionParams, subscriptionParams } from './subscription.ts'
import { BEFORE_ALL, Subscriptions } from './subscriptions.ts'

/** Maximum subscriptions per socket: each is checked for every event. */
const SUBSCRIPTIONS_MAX = 100
/** Total length of a socket's subscriptions as JSON; the same as the body of an event stream may have. */
const SUBSCRIPTIONS_LENGTH = 64 * 1024
/** Memory of a subscription beside its text, and per character of it once parsed, in bytes. */
const SUBSCRIPTION_BYTES = 1024
const CHARACTER_BYTES = 4
/** Invalid messages in a row before it is closed. */
const GARBAGE_MAX = 20

/** Subscriptions within this time, in ms, start together: what a client sends at once may arrive in pieces. */
const MOMENT_MS = 20
/** The same while only WATCHED channels are subscribed: a client that shows a thread subscribes to its content as well. */
const WATCHING_MOMENT_MS = 150
const WATCHED: ReadonlySet<string> = new Set(['lifecycle', 'input'])

/** The largest ordinal of a run in a database. */
const ORDINAL_MAX = 2 ** 31 - 1

export interface Command {
  readonly id: number
  readonly method: string
  readonly params: JsonObject
}

export type ErrorCode =
  | 'invalid_argument'
  | 'unknown_command'
  | 'unknown_error'
  | 'no_such_run'
  | 'no_such_subscription'
  | 'no_such_namespace'
  | 'no_such_interrupt'
  | 'permission_denied'
  | 'not_supported'

/** An answer to a command. Its HTTP status is 200, errors included. */
export type Answer = JsonObject

export function errorAnswer(id: number | null, error: ErrorCode, message: string): Answer {
  return { type: 'error', id, error, message }
}

export function successAnswer(id: number, result: Json, meta: JsonObject): Answer {
  return { type: 'success', id, result, meta }
}

/** null: not a command. */
function commandIn(value: unknown): Command | null {
  if (!isObject(value)) return null
  const { id, method, params } = value
  const isOne = typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 && typeof method === 'string'
  return isOne ? { id, method, params: isObject(params) ? params : {} } : null
}

export interface SocketParts {
  readonly threadId: string
  readonly reader: Reader
  /** The user's budget: counts queued commands and subscriptions. */
  readonly share: Share
  /** Joins the thread; sends nothing before `pump` or `restart`. */
  join(request: ThreadRequest): ThreadJoiner
  /** Number of events a subscription is sent from before it; null: too many to count. */
  replayed(params: SubscriptionParams): Promise<number | null>
  /** Executes any command but those on subscriptions. Never rejects. */
  command(command: Command): Promise<Answer>
  /** Parses untrusted JSON. Throws if it is invalid. */
  parse(text: string): unknown
}

const TOO_LONG = `The subscriptions of a socket have at most ${SUBSCRIPTIONS_LENGTH} characters together.`
const IN_FLIGHT = 'Too many messages, bodies and subscriptions of yours are held. Try again.'

function costOf(length: number): number {
  return SUBSCRIPTION_BYTES + CHARACTER_BYTES * length
}

export class ProtocolSocket {
  readonly #messages: MessageQueue
  readonly #parts: SocketParts
  readonly #subscriptions = new Subscriptions()
  readonly #joiner: ThreadJoiner
  #feed: EventFeed | null = null
  /** Answered, not started yet. */
  #pending: { readonly name: string; readonly params: SubscriptionParams }[] = []
  /** Length of each subscription as JSON, by id. */
  readonly #lengths = new Map<string, number>()
  #garbage = 0

  constructor(socket: TextSocket, parts: SocketParts) {
    this.#parts = parts
    this.#joiner = parts.join({
      writer: socket,
      reader: parts.reader,
      heartbeat: PING,
      heardAt: () => socket.heardAt(),
      // Nothing to send before the first subscription.
      after: ORDINAL_MAX,
      feed: (run, log) => this.#feedOf(run, log),
      onDrain: () => this.#messages.flush()
    })
    this.#messages = new MessageQueue({
      socket,
      share: parts.share,
      stream: this.#joiner,
      answer: (text) => this.#answer(text),
      onIdle: () => {
        if (this.#pending.length > 0) this.#startPendingSoon()
      }
    })
    this.#messages.open()
  }

  #feedOf(run: Run, log: RunLog): RunFeed {
    this.#subscriptions.onLog(run, log)
    this.#feed = new EventFeed(run, log, webSocketEncoding, (seq) => this.#subscriptions.selectionAfter(seq))
    return this.#feed
  }

  #send(answer: Answer): void {
    this.#messages.send(answer)
  }

  /** Timers run before sockets, immediates after them: messages that arrived while the loop was busy are read first. */
  #startPendingSoon(): void {
    const isWatching = this.#pending.every(({ params }) => params.channels.every((channel) => WATCHED.has(channel)))
    setTimeout(() => setImmediate(() => this.#startPending()), isWatching ? WATCHING_MOMENT_MS : MOMENT_MS)
  }

  async #answer(text: string): Promise<void> {
    const [command, problem] = this.#read(text)
    if (command) {
      this.#garbage = 0
      return this.#execute(command)
    }
    this.#send(errorAnswer(null, 'invalid_argument', problem))
    if (++this.#garbage >= GARBAGE_MAX) this.#messages.close(POLICY, 'these are no commands')
  }

  #read(text: string): readonly [Command, null] | readonly [null, string] {
    try {
      const command = commandIn(this.#parts.parse(text))
      return command ? [command, null] : [null, 'A command has an integer id and a method.']
    } catch {
      return [null, 'A command is JSON.']
    }
  }

  async #execute(command: Command): Promise<void> {
    if (command.method === 'subscription.subscribe') return this.#subscribe(command)
    if (command.method === 'subscription.unsubscribe') return this.#unsubscribe(command)
    const answer = await this.#parts.command(command)
    if (!this.#messages.isClosed) this.#send(answer)
  }

  async #subscribe({ id, params }: Command): Promise<void> {
    const read = v.safeParse(subscriptionParams, params)
    if (!read.success)
      return this.#send(errorAnswer(id, 'invalid_argument', 'A subscription names its channels, as a list of names.'))
    if (!read.output.channels.every(isChannel))
      return this.#send(errorAnswer(id, 'invalid_argument', 'A subscription names a channel that there is not.'))
    if (this.#subscriptions.size + this.#pending.length >= SUBSCRIPTIONS_MAX)
      return this.#send(errorAnswer(id, 'invalid_argument', `A socket has at most ${SUBSCRIPTIONS_MAX} subscriptions.`))
    const { length } = JSON.stringify(read.output)
    const all = [...this.#lengths.values()].reduce((sum, one) => sum + one, length)
    if (all > SUBSCRIPTIONS_LENGTH) return this.#send(errorAnswer(id, 'invalid_argument', TOO_LONG))
    if (!this.#parts.share.take(costOf(length))) return this.#send(errorAnswer(id, 'unknown_error', IN_FLIGHT))
    const name = randomUUID()
    this.#lengths.set(name, length)
    // If the store fails here, it fails again when the events are read, and the socket is reset there.
    const replayed = await this.#parts.replayed(read.output).catch(() => null)
    if (this.#messages.isClosed) return
    this.#pending.push({ name, params: read.output })
    const result = { subscription_id: name, ...(replayed !== null && { replayed_events: replayed }) }
    this.#send(successAnswer(id, result, { thread_id: this.#parts.threadId }))
  }

  /**
   * LangGraph's hook opens two subscriptions at once; both are replayed together, or it mistakes one `completed` for both and keeps the
   * other's events until the next run.
   */
  #startPending(): void {
    const pending = this.#pending
    if (this.#messages.isClosed || this.#messages.isWorking || pending.length === 0) return
    this.#pending = []
    let sentThrough = this.#sentThrough()
    let from = ORDINAL_MAX
    for (const { name, params } of pending) {
      const { since } = params
      this.#subscriptions.add(name, params, sentThrough, since?.seq ? since : null)
      sentThrough = BEFORE_ALL
      from = Math.min(from, since?.seq ? frameAt(since.seq).ordinal - 1 : 0)
    }
    this.#feed = null
    this.#joiner.restart(from)
  }

  /** Seq up to which the started subscriptions are complete. */
  #sentThrough(): number {
    const ended = seqOf(this.#joiner.ordinal + 1, 0, 0) - 1
    return this.#joiner.isInRun && this.#feed ? this.#feed.seq : ended
  }

  #unsubscribe({ id, params }: Command): void {
    const name = String(params.subscription_id)
    const isPending = this.#pending.some((one) => one.name === name)
    this.#pending = this.#pending.filter((one) => one.name !== name)
    if (!isPending && !this.#subscriptions.remove(name))
      return this.#send(errorAnswer(id, 'no_such_subscription', `There is no subscription ${name.slice(0, 100)}.`))
    this.#parts.share.give(costOf(this.#lengths.get(name) ?? 0))
    this.#lengths.delete(name)
    this.#send(successAnswer(id, {}, { thread_id: this.#parts.threadId }))
  }
}
