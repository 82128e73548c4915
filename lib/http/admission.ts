// Admission: what is taken of a client before anything is done for it. Every bound is a Budget (base/budget.ts), and a request meets them
// in this order, which is that of the methods:
//
//  1. `keep`     connections of its address                                 too many: reset
//  2. `follow`   requests behind others on its connection, and on all       too many: the connection ends; the rest take turns
//  3. `refuse`   a head that cannot be parsed, is too long or too slow      400, 431, 408
//     entry.ts   where it comes from and who asks, which costs no memory     403, 401
//  4. `share`    bytes and values of its body, of its user or address       503 bodies_in_flight; released with its response
//  5. `turn`     its work, in turns of the event loop by user or address    waits
//  6. `unread`   bytes of responses that its user does not read             the user's next request waits in 5
//
// Routes ask for more where an action is dear or guessed at: the rates at the end of this file (sign-ins, set-up status, accounts), and
// the open streams of a user and of all (run/delivery/streams.ts), a Budget too.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { BYTE_WEIGHT, Budget, ofHeap, type Share } from '../base/budget.ts'
import { arrivals, LoopTurns } from '../base/loop-turns.ts'
import type { Proxies } from './address.ts'
import { wantNoMore } from './web-socket.ts'

/** Pending responses per connection: one read may hold thousands of pipelined requests. */
const PIPELINED_MAX = 32
/** Of all connections, behind their first ones: each costs some KB, and the time to parse it. */
const PIPELINED_ALL = 512

/** Pipelined requests that are begun per turn of the loop. */
const PIPELINED_A_TURN = 4

const BAD_HEADS: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout'
}

/** For anonymous senders, by address: a sign-in is 100 bytes, so this allows some hundred at a time. */
const PUBLIC_BODIES = { each: 64 * 1024 * BYTE_WEIGHT, all: 4 * 1024 * 1024 * BYTE_WEIGHT }
/** For signed-in users, and the part of the heap that it may be at most. */
const BODIES = { each: 16 * 1024 * 1024 * BYTE_WEIGHT, all: 96 * 1024 * 1024 * BYTE_WEIGHT }
const PARTS = { each: 14, all: 7 }
/** Limit of unread response bytes per user: two of the longest; and the part of the heap that it may be at most. */
const UNREAD_BYTES = 32 * 1024 * 1024
const UNREAD_PARTS = 8
/** Shorter ones are not counted. */
const UNREAD_MIN = 64 * 1024

interface AdmissionOptions {
  /** Connections per address, except trusted proxies; 0: no limit. */
  readonly limits?: { readonly connectionsPerAddress?: number }
  readonly proxies: Proxies
  readonly log: { warn(fields: object, message: string): void }
}

export class Admission {
  readonly #options: AdmissionOptions
  /** With their pending responses, of which only one has the socket. */
  readonly #sockets = new Map<Socket, Set<ServerResponse>>()
  readonly #byAddress: Budget
  /** Pending responses behind others of their connections. */
  #pipelined = 0
  #hasWarned = false
  /** Pipelined requests: a few per turn, over all connections, so that others are served in between. */
  readonly #pipelinedTurns = new LoopTurns(PIPELINED_A_TURN)
  readonly #publicBodies: Budget
  readonly #bodies: Budget
  /** Most handlers run synchronously, some for tens of ms: only a few requests run per turn of the event loop. */
  readonly #turns = new LoopTurns()
  /** None for all of them: who reads nothing would keep everybody waiting. */
  readonly #unread = new Budget({ each: ofHeap(UNREAD_BYTES, UNREAD_PARTS), all: 0 })

  /** @param largest what the largest body of any route takes: one always fits, or it could never be sent */
  constructor(options: AdmissionOptions, largest: number) {
    this.#options = options
    this.#byAddress = new Budget({ each: options.limits?.connectionsPerAddress ?? 0, all: 0 })
    const most = Math.max(largest, ofHeap(BODIES.each, PARTS.each))
    this.#bodies = new Budget({ each: most, all: Math.max(most, ofHeap(BODIES.all, PARTS.all)) })
    this.#publicBodies = new Budget({ ...PUBLIC_BODIES, all: ofHeap(PUBLIC_BODIES.all, PARTS.each) })
  }

  /** From now on. @param each of an address; 0: no limit */
  limitConnections(each: number): void {
    this.#byAddress.limitTo({ each, all: 0 })
  }

  get all(): Iterable<Socket> {
    return this.#sockets.keys()
  }

  /** 1. A connection: reset when its address has too many. */
  keep(socket: Socket): void {
    arrivals.came()
    if (!this.#admit(socket)) return void socket.resetAndDestroy()
    const answers = new Set<ServerResponse>()
    this.#sockets.set(socket, answers)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      // A pipelined response has no socket yet, and node:http does not report when it never gets one.
      for (const res of answers) if (res.socket === null && !res.closed) res.destroy().emit('close')
    })
  }

  /** False: its address is at its limit. */
  #admit(socket: Socket): boolean {
    const { proxies, log } = this.#options
    const most = this.#byAddress.each
    const address = socket.remoteAddress ?? ''
    if (most === 0 || proxies.isTrustedAddress(address)) return true
    const share = this.#byAddress.share(address)
    if (!share.take(1)) {
      if (!this.#hasWarned)
        log.warn(
          { address, most },
          'an address has reached its connection limit: raise server.connections_per_address, or list it in server.trusted_proxies if it is a proxy'
        )
      this.#hasWarned = true
      return false
    }
    socket.once('close', () => share.release())
    return true
  }

  /**
   * 2. Behind others: false when nobody would get the response, or too many requests were pipelined on the connection. The last one
   * allowed closes the connection, and so does any pipelined one where all connections have too many. Those allowed take turns.
   */
  async follow(req: IncomingMessage, res: ServerResponse): Promise<boolean> {
    const answers = this.#sockets.get(req.socket)
    if (!answers || answers.size >= PIPELINED_MAX) {
      res.destroy()
      return false
    }
    answers.add(res)
    const isFirst = answers.size === 1
    if (!isFirst) this.#pipelined++
    res.once('close', () => {
      answers.delete(res)
      if (!isFirst) this.#pipelined--
    })
    if (answers.size === PIPELINED_MAX || (!isFirst && this.#pipelined >= PIPELINED_ALL)) {
      res.shouldKeepAlive = false
      wantNoMore(req.socket)
    }
    if (!isFirst) await this.#pipelinedTurns.next(`${req.socket.remoteAddress} ${req.socket.remotePort}`)
    return !res.destroyed
  }

  /** 3. A head that node:http could not parse. Answered unless another response is in progress; the connection is closed either way. */
  refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
    // node:http hands over the connection itself.
    const answers = [...(this.#sockets.get(socket as Socket) ?? [])]
    // A response has begun, or its request was complete: what could not be parsed is another request.
    const isAnswering = answers.some((res) => res.headersSent || res.req.complete)
    if (!socket.writable || error.code === 'ECONNRESET' || isAnswering) return void socket.destroy(error)
    const status = BAD_HEADS[error.code ?? ''] ?? '400 Bad Request'
    const text = JSON.stringify({ detail: status.slice(4) })
    const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nCache-Control: private, no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n`
    socket.end(head + text, () => socket.destroy())
  }

  /** 4. What the request holds of its sender's memory: a user's, or an address's. */
  share(userId: string | null, address: string): Share {
    return userId === null ? this.#publicBodies.share(address) : this.#bodies.share(userId)
  }

  /** 5. Resolves when it is the sender's turn, and a user has read enough of earlier responses. */
  async turn(userId: string | null, address: string): Promise<void> {
    await this.#turns.enter(userId ?? address)
    while (userId !== null && !this.#unread.hasRoom(userId)) {
      await this.#unread.whenLess()
      await this.#turns.enter(userId)
    }
  }

  /** 6. A response that was sent: what its client does not read stays in memory. */
  unread(userId: string, res: ServerResponse): void {
    const bytes = res.writableLength
    if (bytes < UNREAD_MIN || res.closed) return
    const share = this.#unread.share(userId)
    share.add(bytes)
    res.once('close', () => share.release())
  }
}

// ---------------------------------------------------------------------------------------------- rates
// By client address. Tables in this process only, and bounded, so that a flood of addresses costs old entries and not memory.

interface LimiterOptions {
  /** Maximum entries of the table. */
  readonly size?: number
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

const SIZE = 10_000
const monotonic = () => performance.now()

/** Makes room for one more entry: evicts those that are over and, if that is not enough, the first half. */
function makeRoom<Value>(
  table: Map<string, Value>,
  size: number,
  isOver: (value: Value) => boolean,
  inOrder: (entries: [string, Value][]) => [string, Value][] = (entries) => entries
): void {
  if (table.size < size) return
  for (const [address, value] of table) if (isOver(value)) table.delete(address)
  if (table.size < size) return
  for (const [address] of inOrder([...table]).slice(0, Math.ceil(size / 2))) table.delete(address)
}

const FAILURES = 5
const LOCK_MS = 300_000

interface Tries {
  failures: number
  /** 0: not locked. */
  lockedUntil: number
}

/** Failed sign-ins per address: the fifth one locks it for five minutes, a success resets the count [Auth 9]. */
export class LoginLimiter {
  readonly #records = new Map<string, Tries>()
  readonly #size: number
  readonly #now: () => number

  constructor({ size = SIZE, now = monotonic }: LimiterOptions = {}) {
    this.#size = size
    this.#now = now
  }

  /** Checked before the password: a locked address is refused even with the right one. 0: not locked; else seconds until it may retry. */
  lockedFor(address: string): number {
    const record = this.#records.get(address)
    if (record === undefined || record.lockedUntil === 0) return 0
    const left = record.lockedUntil - this.#now()
    if (left > 0) return Math.ceil(left / 1000)
    this.#records.delete(address)
    return 0
  }

  failed(address: string): void {
    const record = this.#records.get(address) ?? this.#add(address)
    record.failures++
    // Attempts already in progress do not extend the lock.
    if (record.failures >= FAILURES && record.lockedUntil === 0) record.lockedUntil = this.#now() + LOCK_MS
  }

  succeeded(address: string): void {
    this.#records.delete(address)
  }

  #add(address: string): Tries {
    const now = this.#now()
    const isOver = ({ lockedUntil }: Tries) => lockedUntil !== 0 && lockedUntil <= now
    // Those with the least time left go first, unlocked addresses before them.
    makeRoom(this.#records, this.#size, isOver, (all) => all.sort(([, a], [, b]) => a.lockedUntil - b.lockedUntil))
    const record = { failures: 0, lockedUntil: 0 }
    this.#records.set(address, record)
    return record
  }
}

const COOLDOWN_MS = 60_000

/** One answer per address and window; refused requests do not restart the window [Auth 10]. */
export class Cooldown {
  /** Last answer by address, oldest first. */
  readonly #answered = new Map<string, number>()
  readonly #size: number
  readonly #now: () => number

  constructor({ size = SIZE, now = monotonic }: LimiterOptions = {}) {
    this.#size = size
    this.#now = now
  }

  /** 0: allowed, and the window starts. Else whole seconds to wait, at least 1: the Retry-After. */
  ask(address: string): number {
    const now = this.#now()
    const last = this.#answered.get(address)
    if (last !== undefined && now - last < COOLDOWN_MS)
      return Math.max(1, Math.floor((COOLDOWN_MS - (now - last)) / 1000))
    this.#answered.delete(address)
    makeRoom(this.#answered, this.#size, (at) => now - at >= COOLDOWN_MS)
    this.#answered.set(address, now)
    return 0
  }
}

interface Bucket {
  readonly atOnce: number
  readonly refillMs: number
}

/** Of expensive and rare actions. */
const RARE: Bucket = { atOnce: 120, refillMs: 2_000 }

/** A token bucket for each key: an address, a user. */
export class Allowance {
  readonly #bucket: Bucket
  /** When each key's bucket is full again; full ones are not in the table. */
  readonly #fullAt = new Map<string, number>()

  constructor(bucket = RARE) {
    this.#bucket = bucket
  }

  /** 0: allowed, and a token is used. Else seconds until the next one. `bucket`: where each key has one of its own. */
  ask(key: string, { atOnce, refillMs } = this.#bucket): number {
    const now = monotonic()
    const fullAt = Math.max(now, this.#fullAt.get(key) ?? 0) + refillMs
    const excess = fullAt - now - atOnce * refillMs
    if (excess > 0) return Math.ceil(excess / 1000)
    this.#fullAt.delete(key)
    makeRoom(this.#fullAt, SIZE, (at) => at <= now)
    this.#fullAt.set(key, fullAt)
    return 0
  }
}
