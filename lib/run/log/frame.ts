// Frames: their kinds, their text on the stream, their positions, and the bounds of a log of them.
import type { Run } from '../../base/types.ts'
import type { Store } from '../../store/store.ts'

/** Kinds of frames in a log. The numbers are stored: never change one. */
export const Kind = {
  metadata: 0,
  /** A reference to a checkpoint, or to the bodies of a state, rendered when somebody reads it. */
  values: 1,
  messages: 2,
  updates: 3,
  custom: 4,
  tasks: 5,
  checkpoints: 6,
  debug: 7,
  error: 8,
  /** Describes the parts that follow, which together are the whole of the cut frame before it. No filter passes it or them. */
  whole: 9,
  part: 10,
  /** Events of LangChain, of a graph. */
  events: 11,
  /** What tools tell while they work, of a graph. */
  tools: 12,
  /** Values word for word, as earlier versions have logged those of agents that show them themselves. */
  state: 13,
  /** Names the checkpoint of the values frame that follows. No mode passes it. */
  envelope: 14,
  /** Where feedback on the run is put, by the keys that its creator has named. */
  feedback: 15,
  /** What a graph's stream transformers make. No mode passes it. */
  extension: 16,
  /** How far an agent was in what it reads elsewhere. No mode passes it. */
  offset: 17,
  /** A message of the conversation that no frame has shown: a graph's node has put it into the state. For other protocols; no mode passes it. */
  joined: 18
} as const
export type Kind = (typeof Kind)[keyof typeof Kind]

export function bit(kind: Kind): number {
  return 1 << kind
}

/** Position of a frame: the n-th of its run, sent under an epoch (one attempt of one process). On the wire `<epoch>-<n>`. */
export interface Cursor {
  readonly epoch: number
  readonly n: number
}

/** Prefix of all cursors of an epoch; n follows. */
export function cursorPrefix(epoch: number): string {
  return `${epoch}-`
}

export function cursorText(epoch: number, n: number): string {
  return cursorPrefix(epoch) + n
}

/** One frame. `json` is one line: JSON has no raw line breaks. `cursor`: its position as text. */
export function frameText(event: string, json: string, cursor: string): string {
  return `event: ${event}\ndata: ${json}\nid: ${cursor}\n\n`
}

/** Bytes around the data of a frame: its event, its position. */
export const FRAME_BYTES = 128

/** Whether data fits one frame of `eventBytes`; 0: any size does. */
export function fits(json: string, eventBytes: number): boolean {
  // A UTF-16 unit is one to three bytes: counted exactly only where that is not conclusive.
  if (eventBytes === 0 || json.length * 3 + FRAME_BYTES <= eventBytes) return true
  return json.length <= eventBytes && Buffer.byteLength(json) + FRAME_BYTES <= eventBytes
}

const BEFORE_DATA = Buffer.from('\ndata: ')

/** The data of a frame that `frameText` made: JSON on one line. */
export function dataOf(frame: Buffer): string {
  const from = frame.indexOf(BEFORE_DATA) + BEFORE_DATA.length
  return frame.toString('utf8', from, frame.indexOf('\n', from))
}

/** The last frame of every stream. Without an id: it is not in the log but follows from the run's status. */
export const END_FRAME = Buffer.from('event: end\ndata: null\n\n')

/**
 * What only the row says: a stop of the server has cut the run short. For clients that take the end of a stream without an error for
 * that of the answer. null: the log says all.
 */
export function stopError({ stop_reason }: Pick<Run, 'stop_reason'>): { error: string; message: string } | null {
  if (stop_reason !== 'shutdown') return null
  return { error: 'ServerShutdown', message: 'The server was stopped before this run was finished' }
}

/** One line without a blank line after it, which some clients would take for an event. */
export const HEARTBEAT = Buffer.from(': heartbeat\n')

/** Where a joiner resumes: after a cursor, after the n-th frame, or from the beginning. */
export type Position = Cursor | { readonly epoch: null; readonly n: number } | null

/**
 * Parses a `Last-Event-ID`. Absent, `-1`, `0` and garbage mean the beginning (null); a bare number is that n of any
 * epoch. Never refuses: a client that reconnects with nonsense should see the run, not an error.
 */
export function readPosition(text: string | undefined): Position {
  const given = text?.trim()
  if (given === undefined || given === '0') return null
  const parts = /^(?:(\d{1,16})-)?(\d{1,15})$/.exec(given)
  if (!parts) return null
  const n = Number(parts[2])
  return parts[1] === undefined ? { epoch: null, n } : { epoch: Number(parts[1]), n }
}

/** Epochs of a run's log, each with the n of its first frame, in order; `head` is the next n. */
export interface LogBounds {
  readonly epochs: readonly { readonly epoch: number; readonly first: number }[]
  readonly head: number
}

/**
 * n of the first frame a joiner at `position` has not seen. A cursor beyond what survived of its epoch continues with
 * the next epoch; one that was never sent starts at the beginning.
 */
export function nextAfter(position: Position, bounds: LogBounds): number {
  if (position === null) return 0
  if (position.epoch === null) return position.n < bounds.head ? position.n + 1 : 0
  const at = bounds.epochs.findIndex(({ epoch }) => epoch === position.epoch)
  const current = bounds.epochs[at]
  if (!current || position.n < current.first) return 0
  const following = bounds.epochs[at + 1]
  if (following) return Math.min(position.n + 1, following.first)
  return position.n < bounds.head ? position.n + 1 : 0
}

/**
 * The same for a run of another process, of which only stored frames are known. null: unknown yet, because the position
 * may be of a frame, or a whole attempt, that was sent there and is not stored: the reader waits.
 * @param isRead the store was read since the position came. Later attempts only send stored frames, so a position that
 * is still unknown was of a first attempt, by a clock ahead of the next one's, and is lost
 */
export function nextStored(position: Position, bounds: LogBounds, isRead = false): number | null {
  if (position === null) return 0
  const { epoch, n } = position
  const current = bounds.epochs.at(-1)
  if (epoch === null || epoch === current?.epoch) return n < bounds.head ? nextAfter(position, bounds) : null
  // Epochs only grow: an unknown one below the newest never existed.
  return current === undefined || (epoch > current.epoch && !isRead) ? null : nextAfter(position, bounds)
}

/** What is stored of a run's log. */
export async function boundsOf(
  store: { readonly frames: Pick<Store['frames'], 'bounds'> },
  run: Run
): Promise<LogBounds> {
  const bounds = await store.frames.bounds(run.key)
  return bounds ? { epochs: bounds.epochs, head: bounds.last + 1 } : { epochs: [], head: 0 }
}

/** When all frames are swept, the row still has the last cursor: a client with that cursor has everything. */
export function rowBounds({ last_cursor }: Run): LogBounds {
  if (last_cursor === null) return { epochs: [], head: 0 }
  // A cursor is two numbers: written by this service.
  const [epoch, n] = last_cursor.split('-').map(Number)
  return { epochs: [{ epoch: epoch!, first: 0 }], head: n! + 1 }
}

/** Of a run that has ended, as far as it is kept. */
export async function endedBounds(store: Parameters<typeof boundsOf>[0], run: Run): Promise<LogBounds> {
  const { epochs, head } = await boundsOf(store, run)
  const row = rowBounds(run)
  return { epochs: epochs.length ? epochs : row.epochs, head: Math.max(head, row.head) }
}

let lastEpoch = 0

/**
 * A new epoch: greater than any before it in this process and than those of the run's `past` attempts, even if the
 * clock was set back, and by the clock than those of other processes.
 */
export function newEpoch(past: readonly { readonly epoch: number }[] = [], now = Date.now()): number {
  lastEpoch = Math.max(now, lastEpoch + 1, ...past.map(({ epoch }) => epoch + 1))
  return lastEpoch
}

/**
 * Which attempt comes next, from 1. `past`: what is stored of the run's log, where another process had it. One that waited there counts as
 * begun: its readers were shown what it begins with.
 */
export function attemptAfter({ attempts }: Pick<Run, 'attempts'>, past: LogBounds | undefined): number {
  if (past) return Math.max(1, attempts) + 1
  return attempts === 1 ? 1 : attempts + 1
}
