// Where a client of the stream of many threads was: the newest place in the list of begun runs, and a position in each open run. What is too
// long for an address is kept here for a while and given by its id. On another process, or later, the id is that of a lost cursor: its
// client is told to reload, and the text is still the client's own.
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import * as v from 'valibot'
import { ofHeap } from '../base/budget.ts'
import { Invalid } from '../base/errors.ts'
import { searchParams } from '../http/request.ts'
import type { Call } from '../http/route.ts'
import { issue, objectOf } from '../http/schema.ts'
import { type Position, readPosition } from '../run/log/frame.ts'
import { positionText } from './join-request.ts'

/** Characters in an address. */
const CURSOR_MAX = 4096
/** Characters of one that is kept, of some thousand open runs: less than a body may have. */
const KEPT_CURSOR_MAX = 60 * 1024
/** Of one user: a tab each. */
const KEPT_OF_USER = 8
const KEPT_MS = 600_000
/** Characters of all users' cursors. */
const KEPT_CHARACTERS = ofHeap(16 * 1024 * 1024, 32)

export const cursorBody = objectOf({ cursor: v.pipe(v.string(), v.maxLength(KEPT_CURSOR_MAX)) })
export type CursorBody = v.InferOutput<typeof cursorBody>

export interface Cursor {
  readonly place: number | null
  /** By run. */
  readonly positions: ReadonlyMap<string, Position>
  /** The text of the id is not known here, or says something that no cursor says. */
  readonly isLost: boolean
}

/** Texts of a user, by id; the oldest first. */
type Kept = ReadonlyMap<string, string>

export class Cursors {
  readonly #byUser = new LRUCache<string, Kept>({
    maxSize: KEPT_CHARACTERS,
    sizeCalculation: (kept) => [...kept].reduce((sum, [id, text]) => sum + id.length + text.length, 0),
    ttl: KEPT_MS
  })

  keep(userId: string, text: string): { id: string } {
    // The place stands in the id: where its text is lost, the runs that have begun since are known.
    const id = `~${placeIn(text) ?? ''}.${randomBytes(12).toString('base64url')}`
    const kept = [...(this.#byUser.get(userId) ?? []), [id, text] as const].slice(-KEPT_OF_USER)
    this.#byUser.set(userId, new Map(kept))
    return { id }
  }

  /** Where the caller was, by what the request says. */
  of(call: Call): Cursor {
    const text = searchParams(call).get('cursor') ?? positionText(call) ?? ''
    if (text.length > CURSOR_MAX)
      throw new Invalid([issue('string_too_long', ['query', 'cursor'], { max_length: CURSOR_MAX })])
    const [, place] = /^~(\d{0,15})\.[\w-]{16}$/.exec(text) ?? []
    if (place === undefined) return read(text)
    const kept = this.#byUser.get(call.user!.id)?.get(text)
    if (kept !== undefined) return read(kept)
    return { place: place === '' ? null : Number(place), positions: new Map(), isLost: true }
  }
}

function placeIn(text: string): number | null {
  return read(text).place
}

function read(text: string): Cursor {
  const positions = new Map<string, Position>()
  let place: number | null = null
  let isLost = false
  for (const item of text.split(',')) {
    const [, begun, runId, position] = /^(?:@(\d{1,15})|([\w-]{1,64})(?::(\d{1,16}-\d{1,15}))?)$/.exec(item) ?? []
    if (begun !== undefined) place = Number(begun)
    else if (runId !== undefined) positions.set(runId, readPosition(position))
    else if (item !== '') isLost = true
  }
  return { place, positions, isLost }
}
