// What a client library shows of a conversation, whichever it is: in words that can be compared with the state of the thread.
import { setTimeout as pause } from 'node:timers/promises'
import type { Packages } from '../../fixtures/npm.ts'

export interface Shown {
  readonly texts: readonly string[]
  readonly reasonings: readonly string[]
  /** What tools have answered. */
  readonly results: readonly string[]
}

/** A conversation, as a library's client has it. */
export interface Client {
  /** Says it, and follows the answer to its end, whatever breaks. Resolves with the thread. */
  turn(words: string): Promise<string>
  shown(): Shown
  /** The same conversation, as it is shown to who comes later. */
  later(): Promise<Shown>
}

export interface Place {
  readonly url: string
  readonly token: string
}

export type ClientMaker = (packages: Packages, place: Place) => Promise<Client>

/** Attempts at coming back, in which nothing new has come: a gateway may be starting. */
const PATIENCE = 300
const WAIT_MS = 100

/** Comes back until there is nothing to come back for. */
export async function comingBack(isOver: () => boolean, comeBack: () => Promise<unknown>): Promise<void> {
  let why: unknown = null
  for (let attempt = 0; attempt < PATIENCE && !isOver(); attempt++) {
    if (attempt > 0) await pause(WAIT_MS)
    await comeBack().catch((error: unknown) => {
      why = error
    })
  }
  if (!isOver()) throw new Error(`it did not come back: ${String(why)}`)
}

/** The text at a path of what a library has decoded; '' where there is none. */
export function wordAt(value: unknown, ...path: string[]): string {
  let found: unknown = value
  for (const name of path) found = (found as Record<string, unknown> | null | undefined)?.[name]
  return found === undefined ? '' : String(found)
}

/** A result as the state has it, whether it is a text or JSON. */
export function textOfResult(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
