// One stream for many threads: the frames of their runs, and news of all threads of the user. As an event stream, or over a WebSocket
// whose messages are the same text: a browser allows six connections for event streams to one server, and 200 WebSockets.
//
// An id is `<run_id>:<cursor>`, or `@<place>`, the place in the list of begun runs. A client's cursor is the newest place and the newest
// id of each run that it has not read to the end, or a run's id alone if it has seen nothing of it, all joined by commas; or the id of such
// a text that was too long for an address (live-cursor.ts).
import { fail, Invalid, Refused, warnUnexpected } from '../base/errors.ts'
import { type Authorization, type Call, HANDLED, mayAccess, route, type Route } from '../http/route.ts'
import { searchParams } from '../http/request.ts'
import { acceptWebSocket, isUpgrade, PING, textFrames, type TextSocket } from '../http/web-socket.ts'
import { badId, isId } from '../http/schema.ts'
import { FrameFeed } from '../run/delivery/frame-feed.ts'
import type { Place } from '../run/delivery/streams.ts'
import type { ThreadsJoiner } from '../run/delivery/thread-joiner.ts'
import type { Fed, RunFeed } from '../run/delivery/thread-reader.ts'
import type { Filter } from '../run/log/filter.ts'
import type { RunLog } from '../run/log/run-log.ts'
import { HEARTBEAT, type Position } from '../run/log/frame.ts'
import type { Loaded } from '../run/log/stored-frames.ts'
import { newsKey } from '../run/lifecycle/run-readers.ts'
import { isDelayed, type Run } from '../base/types.ts'
import { one, shaped, stream, text } from './answers.ts'
import { Authorizer } from './authorization.ts'
import { tooLong } from './input.ts'
import { modesIn, openEvents, readerOf } from './join-request.ts'
import { type Cursor, type CursorBody, cursorBody, Cursors } from './live-cursor.ts'
import type { Services } from './services.ts'
import { firstUnfinished } from './thread-stream.ts'

const THREADS_MAX = 64
/** Runs begun while a client was away, above which it reloads. */
const BEGUN_MAX = 1000
/** The same of all users' runs: so many rows are looked through. */
const PLACES_MAX = 100_000
/** Bytes of a message on the WebSocket: there is nothing to say. */
const MESSAGE_MAX = 1024

type Encode = (bytes: Buffer) => Buffer

export function liveStreamRoutes(services: Services): Route[] {
  const { store, registry, config } = services
  const cursors = new Cursors()

  const requireThreads = async (threads: readonly string[], userId: string): Promise<void> => {
    const owners = await Promise.all(threads.map((id) => store.threads.ownerOf(id)))
    const denied = threads.find((_, at) => !mayAccess('read', owners[at], userId))
    if (denied !== undefined) throw fail('thread_not_found', { id: denied })
  }

  const live = (call: Call): Promise<typeof HANDLED> =>
    registry.streams.hold(call.user!.id, async (place) => {
      const threads = threadsIn(call)
      const cursor = cursors.of(call)
      await requireThreads(threads ?? [], call.user!.id)
      const reader = new LiveReader(services, { userId: call.user!.id, threads, modes: modesIn(call) })
      if (isUpgrade(call.req)) reader.openSocket(call, acceptWebSocket(call, { maxBytes: MESSAGE_MAX }), place)
      else reader.openEvents(call, place)
      reader.send('open', { heartbeat_ms: config.streams.heartbeat_ms })
      await reader.begin(cursor)
      return HANDLED
    })

  return [
    route({
      method: 'GET',
      path: '/api/stream',
      permission: 'runs:read',
      isStream: true,
      rule: readingThreads(services),
      summary: 'The runs of many threads as one stream, and news of all threads; also over a WebSocket',
      answers: { ...stream, 101: null },
      refusals: [404, 422, 429],
      reads: {
        query: {
          threads: '`*` (default): runs in flight and all that begin; or up to 64 thread ids, separated by commas',
          cursor: 'Resume: ids of frames, separated by commas, or the id of a cursor',
          last_event_id: 'The same',
          stream_mode: 'Only these modes'
        },
        headers: { 'Last-Event-ID': 'The same' }
      },
      handler: live
    }),
    route({
      method: 'POST',
      path: '/api/stream/cursors',
      permission: 'runs:read',
      rule: null,
      body: cursorBody,
      summary: 'Keep a cursor of the stream of many threads that is too long for its address',
      answers: one(shaped({ id: text }), 201),
      handler: async ({ user, body }: Call<CursorBody>) => ({ status: 201, json: cursors.keep(user!.id, body.cursor) })
    })
  ]
}

interface Wanted {
  readonly userId: string
  /** null: those with a run in flight, and every one in which a run begins. */
  readonly threads: readonly string[] | null
  readonly modes: readonly string[] | null
}

class LiveReader {
  readonly #services: Services
  readonly #wanted: Wanted
  #joiner!: ThreadsJoiner
  #encode: Encode = (bytes) => bytes
  /** Threads that have changed and were not told yet. */
  readonly #changed = new Set<string>()
  /** Key of the newest run that was told. */
  #place = 0
  #isLooking = false
  /** There may be another run since the last look. */
  #mayFollow = false

  constructor(services: Services, wanted: Wanted) {
    this.#services = services
    this.#wanted = wanted
  }

  openEvents(call: Call, place: Place): void {
    this.#join(call, { writer: openEvents(this.#services, call), heartbeat: HEARTBEAT }, place)
  }

  openSocket(call: Call, socket: TextSocket, place: Place): void {
    let pong: Buffer | null = null
    const answer = () => {
      if (pong && this.#joiner.isAtBorder) socket.write(pong)
      if (this.#joiner.isAtBorder) pong = null
    }
    this.#encode = framedOnce
    const heartbeat = Buffer.concat([PING, framedOnce(HEARTBEAT)])
    this.#join(call, { writer: socket, heartbeat, heardAt: () => socket.heardAt(), onDrain: answer }, place)
    socket.onText(() => {})
    socket.onPing((given) => {
      pong = given
      answer()
    })
  }

  #join(
    call: Call,
    wire: Pick<
      Parameters<Services['registry']['readers']['joinThreads']>[0],
      'writer' | 'heartbeat' | 'heardAt' | 'onDrain'
    >,
    place: Place
  ): void {
    const { registry } = this.#services
    const unwatch = registry.watchers.watch(newsKey(this.#wanted.userId), (threadId) => this.#onNews(threadId))
    const onDrain = () => {
      wire.onDrain?.()
      this.#sendNews()
    }
    const request = { ...wire, onDrain, reader: readerOf(this.#services, call) }
    this.#joiner = registry.readers.joinThreads(request, place, unwatch)
  }

  /** Sends an event that is in no log; false: there is no space for it now. */
  send(event: string, data: object, id: string | null = null): boolean {
    const text = `event: ${event}\ndata: ${JSON.stringify(data)}\n${id === null ? '' : `id: ${id}\n`}\n`
    return this.#joiner.send(this.#encode(Buffer.from(text)))
  }

  async begin({ place, positions, isLost: isUnknown }: Cursor): Promise<void> {
    const { store } = this.#services
    const { threads, userId } = this.#wanted
    const runs = await Promise.all([...positions.keys()].map((runId) => store.runs.get(runId, userId)))
    // Of a run that is gone nothing comes any more: whoever waits for its end is told to look.
    const isLost = isUnknown || runs.includes(null)
    if (isLost && threads !== null) this.send('resync', { threads })
    const known = runs.filter((run) => run !== null && (threads === null || threads.includes(run.thread_id))) as Run[]
    for (const run of known.toSorted((a, b) => a.ordinal - b.ordinal))
      if (!this.#joiner.has(run.thread_id)) this.#read(run.thread_id, run.ordinal, positions)
    const unread = (threads ?? []).filter((threadId) => !this.#joiner.has(threadId))
    const ordinals = await Promise.all(unread.map((threadId) => firstUnfinished(store, threadId)))
    for (const [at, threadId] of unread.entries()) this.#read(threadId, ordinals[at]!, positions)
    if (threads === null) await this.#beginAll(place, isLost)
  }

  async #beginAll(place: number | null, isLost: boolean): Promise<void> {
    const { runs } = this.#services.store
    const { userId } = this.#wanted
    const { newest } = await runs.begun(Number.MAX_SAFE_INTEGER, 1, userId)
    this.#place = place ?? newest
    const isOld = this.#place > newest || newest - this.#place > PLACES_MAX
    const begun = isOld ? [] : (await runs.begun(this.#place, BEGUN_MAX + 1, userId)).runs
    if (isOld || isLost || begun.length > BEGUN_MAX) {
      this.send('resync', { threads: [...new Set(begun.map(({ thread_id }) => thread_id))] }, `@${newest}`)
      this.#place = newest
    }
    this.#mayFollow = true
    await this.#look()
  }

  /** Reads a thread from the run with this ordinal on. */
  #read(threadId: string, ordinal: number, positions: Cursor['positions']): void {
    const { userId, modes } = this.#wanted
    const feed = (run: Run, log: RunLog) =>
      new LiveFeed(run, log, positions.get(run.run_id) ?? null, modes, this.#encode)
    this.#joiner.add(threadId, { after: ordinal - 1, feed }, this.#services.registry.readers.runsOf(threadId, userId))
    this.#joiner.pump()
  }

  /** @param threadId absent: anything may have changed */
  #onNews(threadId?: string): void {
    if (threadId) this.#changed.add(threadId)
    this.#mayFollow = this.#wanted.threads === null
    this.#sendNews()
  }

  /** Tells what has changed, as far as there is space. */
  #sendNews(): void {
    for (const thread_id of this.#changed) {
      if (!this.send('thread', { thread_id })) return
      this.#changed.delete(thread_id)
    }
    this.#look().catch(warnUnexpected)
  }

  /** Finds runs that have begun, one look at a time. */
  async #look(): Promise<void> {
    if (this.#isLooking || !this.#mayFollow) return
    this.#isLooking = true
    try {
      while (this.#mayFollow && !this.#joiner.isGone) {
        this.#mayFollow = false
        if (!(await this.#findBegun())) {
          this.#mayFollow = true
          break
        }
      }
    } catch (error) {
      this.#services.log.warn({ err: error }, 'runs that have begun could not be read; the stream is reset')
      this.#joiner.reset('broken')
    }
    this.#isLooking = false
  }

  /** False: there is no space to tell of them. */
  async #findBegun(): Promise<boolean> {
    const { runs } = this.#services.store
    const { userId } = this.#wanted
    const [open, begun] = await Promise.all([runs.unfinished(userId), runs.begun(this.#place, BEGUN_MAX, userId)])
    // What was read to its end since it was asked for is no news.
    const ended = this.#joiner.dropIdle()
    const isNew = (run: Run) =>
      !isDelayed(run) &&
      run.ordinal > (ended.get(run.thread_id) ?? 0) &&
      (run.key > this.#place || !this.#joiner.has(run.thread_id))
    const all = new Map([...begun.runs, ...open].filter(isNew).map((run) => [run.run_id, run]))
    const found = [...all.values()].toSorted((a, b) => a.ordinal - b.ordinal)
    if (found.length === 0) return true
    const place = Math.max(this.#place, ...found.map(({ key }) => key))
    const told = { runs: found.map(({ run_id, thread_id }) => ({ run_id, thread_id })) }
    if (!this.send('begun', told, `@${place}`)) return false
    this.#place = place
    for (const { thread_id, ordinal } of found)
      if (!this.#joiner.has(thread_id)) this.#read(thread_id, ordinal, NO_POSITIONS)
    return true
  }
}

const NO_POSITIONS: ReadonlyMap<string, Position> = new Map()

/** A run as a reader of many sees it: who has seen nothing of it is told which it is. */
class LiveFeed implements RunFeed {
  readonly #run: Run
  readonly #feed: FrameFeed
  readonly #encode: Encode
  #isNew: boolean

  constructor(run: Run, log: RunLog, start: Position, modes: readonly string[] | null, encode: Encode) {
    this.#run = run
    this.#feed = new FrameFeed(run, log, start, { modes, prefix: `${run.run_id}:` })
    this.#encode = encode
    this.#isNew = start === null
  }

  get filter(): Filter {
    return this.#feed.filter
  }

  get at(): number | null {
    return this.#feed.at
  }

  next(loaded: Loaded | null): Fed {
    if (this.#isNew) {
      this.#isNew = false
      const { run_id, thread_id } = this.#run
      const text = `event: run\ndata: ${JSON.stringify({ run_id, thread_id })}\n\n`
      return { bytes: this.#encode(Buffer.from(text)), count: 1 }
    }
    const fed = this.#feed.next(loaded)
    return typeof fed === 'string' ? fed : { bytes: this.#encode(fed.bytes), count: fed.count }
  }

  load(): Promise<Loaded> {
    return this.#feed.load()
  }
}

/** Sockets at the same position share the message. */
const messages = new WeakMap<Buffer, Buffer>()

function framedOnce(bytes: Buffer): Buffer {
  const known = messages.get(bytes)
  if (known || bytes.length === 0) return known ?? bytes
  const framed = textFrames([bytes.toString()])
  messages.set(bytes, framed)
  return framed
}

/** Threads in the query; null: `*`. */
function threadsIn(call: Call): readonly string[] | null {
  const text = searchParams(call).get('threads') ?? '*'
  if (text === '*') return null
  const ids = [...new Set(text.split(',').filter(Boolean))]
  if (ids.length > THREADS_MAX) throw tooLong(['query', 'threads'], THREADS_MAX)
  if (!ids.every(isId)) throw new Invalid([badId(['query', 'threads'])])
  return ids
}

/** The rules of a project know no filter for all threads: they are asked about each that is named. */
function readingThreads(services: Services): Authorization {
  return async (call, ask) => {
    const threads = searchParams(call).get('threads') ?? '*'
    if (threads === '*') throw new Refused(403, 'Where the project has rules of its own, a stream names its threads')
    const authorizer = new Authorizer(services, ask)
    for (const id of threads.split(',').filter(Boolean)) await authorizer.thread('read', id)
    return call
  }
}
