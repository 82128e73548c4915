// One WebSocket of protocol v2: commands are answered in order, and events of its subscriptions are sent. An answer
// never splits an event, and precedes the events it causes.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { BYTE_WEIGHT, type Share } from '../../base/budget.ts'
import { PING, type TextSocket, textFrames } from '../../http/web-socket.ts'
import type { RunFeed, ThreadJoiner, ThreadRequest } from '../../run/delivery/thread-joiner.ts'
import type { Reader } from '../../run/delivery/credential-revalidator.ts'
import type { RunLog } from '../../run/log/run-log.ts'
import { isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { webSocketEncoding } from './encoding.ts'
import { frameAt, seqOf } from './event.ts'
import { EventFeed } from './feed.ts'
import { isChannel, type SubscriptionParams, subscriptionParams } from './subscription.ts'
import { NOTHING_TOLD, Subscriptions } from './subscriptions.ts'
import { warnUnexpected } from '../../base/unexpected.ts'

/** Maximum subscriptions per socket: each is checked for every event. */
const SUBSCRIPTIONS_MAX = 100
/** Maximum length of them all, as JSON: hundreds of namespaces, and no more than a stream has in a body. */
const SUBSCRIPTIONS_LENGTH = 64 * 1024
/** Memory of a subscription beside its text, and of a character of it: the text is kept as values. */
const SUBSCRIPTION_BYTES = 1024
const CHARACTER_BYTES = 4
/** Queue of commands; the socket is not read while it is full. */
const WAITING_MAX = 1000
/** Invalid messages in a row before it is closed. */
const GARBAGE_MAX = 20

/** Subscriptions that come within so many ms begin together: what a client sends at once need not arrive in one piece. */
const MOMENT_MS = 20
/** The same where all that is wanted so far is to watch: who shows a thread asks for what is in it as well. */
const WATCHING_MOMENT_MS = 150
const WATCHED: ReadonlySet<string> = new Set(['lifecycle', 'input'])

/** Of a run in its thread, as databases have it. */
const ORDINAL_MAX = 2 ** 31 - 1
const POLICY = 1008
const TRY_AGAIN = 1013

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
  | 'no_such_interrupt'
  | 'permission_denied'
  | 'not_supported'

/** An answer to a command, whatever it is: the HTTP status of one that was understood is always 200. */
export type Answer = JsonObject

export function errorAnswer(id: number | null, error: ErrorCode, message: string): Answer {
  return { type: 'error', id, error, message }
}

export function successAnswer(id: number, result: Json, meta: JsonObject): Answer {
  return { type: 'success', id, result, meta }
}

/** A command; null: it is none. */
function commandIn(value: unknown): Command | null {
  if (!isObject(value)) return null
  const { id, method, params } = value
  const isOne = typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 && typeof method === 'string'
  return isOne ? { id, method, params: isObject(params) ? params : {} } : null
}

export interface SocketParts {
  readonly threadId: string
  readonly reader: Reader
  /** Of its user's memory: commands that wait, and subscriptions. */
  readonly share: Share
  /** Reads the thread for it; it begins when `pump` is called. */
  join(request: ThreadRequest): ThreadJoiner
  /** What a subscription is sent of what is there already; null: it is too much to be counted. */
  replayed(params: SubscriptionParams): Promise<number | null>
  /** Any command but those about subscriptions. Never rejects. */
  command(command: Command): Promise<Answer>
  /** JSON that may not be trusted. Throws when it is none. */
  parse(text: string): unknown
}

const TOO_LONG = `The subscriptions of a socket have at most ${SUBSCRIPTIONS_LENGTH} characters together.`
const IN_FLIGHT = 'Too many messages, bodies and subscriptions of yours are held. Try again.'

function costOf(length: number): number {
  return SUBSCRIPTION_BYTES + CHARACTER_BYTES * length
}

export class ProtocolSocket {
  readonly #socket: TextSocket
  readonly #parts: SocketParts
  readonly #subscriptions = new Subscriptions()
  readonly #joiner: ThreadJoiner
  readonly #waiting: string[] = []
  /** Frames that wait for the end of an event. */
  #held: Buffer[] = []
  /** The answer to the last ping that came while no answer could be sent; only that one is wanted [RFC 6455 5.5.3]. */
  #pong: Buffer | null = null
  #isFull = false
  #feed: EventFeed | null = null
  /** Subscriptions that were answered and not begun. */
  #fresh: { readonly name: string; readonly params: SubscriptionParams }[] = []
  /** Lengths of all subscriptions, by name. */
  readonly #lengths = new Map<string, number>()
  #isWorking = false
  #isClosed = false
  #garbage = 0

  constructor(socket: TextSocket, parts: SocketParts) {
    this.#socket = socket
    this.#parts = parts
    this.#joiner = parts.join({
      writer: socket,
      reader: parts.reader,
      heartbeat: PING,
      heardAt: () => socket.heardAt(),
      // Nothing to send before the first subscription.
      after: ORDINAL_MAX,
      feed: (run, log) => this.#feedOf(run, log),
      onDrain: () => this.#flush()
    })
    socket.onClose(() => {
      this.#isClosed = true
    })
    socket.onPing((pong) => {
      if (this.#takesAnswers) this.#write(pong)
      else this.#pong = pong
    })
    socket.onText((text) => this.#hear(text))
  }

  #feedOf(run: Run, log: RunLog): RunFeed {
    this.#subscriptions.meet(run, log)
    this.#feed = new EventFeed(run, log, webSocketEncoding, (seq) => this.#subscriptions.wanted(seq))
    return this.#feed
  }

  // ---------------------------------------------------------------------------------------------------- writing

  /** A client that does not read its answers gets no more of them. */
  get #takesAnswers(): boolean {
    return !this.#isFull && this.#held.length === 0 && this.#joiner.isAtBorder
  }

  #say(answer: Answer): void {
    this.#write(textFrames([JSON.stringify(answer)]))
  }

  #write(frame: Buffer): void {
    if (this.#held.length > 0 || !this.#joiner.isAtBorder) this.#held.push(frame)
    else this.#isFull = !this.#socket.write(frame)
  }

  /** The socket has space again. */
  #flush(): void {
    if (!this.#joiner.isAtBorder) return
    const held = this.#pong ? [...this.#held, this.#pong] : this.#held
    this.#held = []
    this.#pong = null
    this.#isFull = false
    for (const frame of held) this.#write(frame)
    this.#workOn()
  }

  // ---------------------------------------------------------------------------------------------------- commands

  #hear(text: string): void {
    this.#waiting.push(text)
    if (this.#waiting.length > WAITING_MAX) return this.#socket.close(POLICY, 'too many commands at once')
    if (!this.#parts.share.take(text.length * BYTE_WEIGHT))
      return this.#socket.close(TRY_AGAIN, 'too many commands are on their way; try again')
    this.#socket.pause()
    this.#workOn()
  }

  #workOn(): void {
    this.#work().catch((error: unknown) => {
      warnUnexpected(error)
      this.#socket.reset()
    })
  }

  /** One after the other; while any wait, no more are read. */
  async #work(): Promise<void> {
    if (this.#isWorking) return
    this.#isWorking = true
    while (this.#waiting.length > 0 && this.#takesAnswers && !this.#isClosed) {
      const text = this.#waiting.shift()!
      await this.#answer(text)
      this.#parts.share.give(text.length * BYTE_WEIGHT)
    }
    this.#isWorking = false
    if (this.#waiting.length === 0) this.#socket.resume()
    if (this.#fresh.length > 0) this.#beginSoon()
  }

  /** What has arrived while the loop was held up is read first: timers are called before sockets, immediates after them. */
  #beginSoon(): void {
    const isWatching = this.#fresh.every(({ params }) => params.channels.every((channel) => WATCHED.has(channel)))
    setTimeout(() => setImmediate(() => this.#begin()), isWatching ? WATCHING_MOMENT_MS : MOMENT_MS)
  }

  async #answer(text: string): Promise<void> {
    const [command, problem] = this.#read(text)
    if (command) {
      this.#garbage = 0
      return this.#obey(command)
    }
    this.#say(errorAnswer(null, 'invalid_argument', problem))
    if (++this.#garbage >= GARBAGE_MAX) this.#socket.close(POLICY, 'these are no commands')
  }

  #read(text: string): readonly [Command, null] | readonly [null, string] {
    try {
      const command = commandIn(this.#parts.parse(text))
      return command ? [command, null] : [null, 'A command has an integer id and a method.']
    } catch {
      return [null, 'A command is JSON.']
    }
  }

  async #obey(command: Command): Promise<void> {
    if (command.method === 'subscription.subscribe') return this.#subscribe(command)
    if (command.method === 'subscription.unsubscribe') return this.#unsubscribe(command)
    const answer = await this.#parts.command(command)
    if (!this.#isClosed) this.#say(answer)
  }

  async #subscribe({ id, params }: Command): Promise<void> {
    const read = v.safeParse(subscriptionParams, params)
    if (!read.success)
      return this.#say(errorAnswer(id, 'invalid_argument', 'A subscription names its channels, as a list of names.'))
    if (!read.output.channels.every(isChannel))
      return this.#say(errorAnswer(id, 'invalid_argument', 'A subscription names a channel that there is not.'))
    if (this.#subscriptions.size + this.#fresh.length >= SUBSCRIPTIONS_MAX)
      return this.#say(errorAnswer(id, 'invalid_argument', `A socket has at most ${SUBSCRIPTIONS_MAX} subscriptions.`))
    const { length } = JSON.stringify(read.output)
    const all = [...this.#lengths.values()].reduce((sum, one) => sum + one, length)
    if (all > SUBSCRIPTIONS_LENGTH) return this.#say(errorAnswer(id, 'invalid_argument', TOO_LONG))
    if (!this.#parts.share.take(costOf(length))) return this.#say(errorAnswer(id, 'unknown_error', IN_FLIGHT))
    const name = randomUUID()
    this.#lengths.set(name, length)
    // A store that fails resets the socket when it is read to send them.
    const replayed = await this.#parts.replayed(read.output).catch(() => null)
    if (this.#isClosed) return
    this.#fresh.push({ name, params: read.output })
    const result = { subscription_id: name, ...(replayed !== null && { replayed_events: replayed }) }
    this.#say(successAnswer(id, result, { thread_id: this.#parts.threadId }))
  }

  /**
   * Subscriptions of one moment begin together. LangGraph's hook makes two, and takes a run's end that one of them is told for the end
   * of the other, which then waits for the next run with what it has not been told yet.
   */
  #begin(): void {
    const fresh = this.#fresh
    if (this.#isClosed || this.#isWorking || fresh.length === 0) return
    this.#fresh = []
    let toldUpTo = this.#toldUpTo()
    let from = ORDINAL_MAX
    for (const { name, params } of fresh) {
      const { since } = params
      this.#subscriptions.add(name, params, toldUpTo, since?.seq ? since : null)
      toldUpTo = NOTHING_TOLD
      from = Math.min(from, since?.seq ? frameAt(since.seq).ordinal - 1 : 0)
    }
    this.#feed = null
    this.#joiner.restart(from)
  }

  /** What stands before it was told to all who had subscribed to it. */
  #toldUpTo(): number {
    const ended = seqOf(this.#joiner.ordinal + 1, 0, 0) - 1
    return this.#joiner.isInRun && this.#feed ? this.#feed.seq : ended
  }

  #unsubscribe({ id, params }: Command): void {
    const name = String(params.subscription_id)
    const isFresh = this.#fresh.some((one) => one.name === name)
    this.#fresh = this.#fresh.filter((one) => one.name !== name)
    if (!isFresh && !this.#subscriptions.remove(name))
      return this.#say(errorAnswer(id, 'no_such_subscription', `There is no subscription ${name.slice(0, 100)}.`))
    this.#parts.share.give(costOf(this.#lengths.get(name) ?? 0))
    this.#lengths.delete(name)
    this.#say(successAnswer(id, {}, { thread_id: this.#parts.threadId }))
  }
}
