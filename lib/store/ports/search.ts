// Full-text search: where words stand in what threads show.
import type { Timestamp } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

/**
 * The words of one text, in the form in which they are looked for: whoever cuts a text into words does so before the store, so that
 * every store finds the same. A word has letters, marks, digits and pictures only.
 */
export interface TextWords {
  /** Of the event that has the text; 0: the title of the thread. */
  readonly seq: number
  readonly at: Timestamp
  readonly words: readonly string[]
}

/** A thread whose texts have changed since they were put into the index. */
export interface QueuedThread {
  readonly thread_id: string
  readonly title: string | null
  /** Texts up to this seq are in the index. */
  readonly seq: number
  /** Changes with every run that ends: what has changed meanwhile stays queued. */
  readonly version: number
}

export interface WordQuery {
  /** All of them. */
  readonly words: readonly string[]
  /** The beginning of a word; null: none. */
  readonly prefix: string | null
  readonly limit: number
  readonly offset: number
}

/** Where all words of a query are. */
export interface TextPlace {
  readonly thread_id: string
  readonly seq: number
  readonly at: Timestamp
  readonly title: string | null
}

export interface TextPlaces {
  readonly places: TextPlace[]
  /** How many there are; with `more` at least so many. */
  readonly total: number
  /** There may be more than were counted: a search need not read all that has a common word. */
  readonly more: boolean
}

export interface SearchReads {
  /** Newest first, then by thread and seq. Threads that are made for one run are in none. */
  find(query: WordQuery, user: Owner): Promise<TextPlaces>
  /** Queued threads, by id: these, or any after an id. */
  queued(which: readonly string[] | { readonly after: string }, limit: number): Promise<QueuedThread[]>
  /** Number of threads that are queued. */
  waiting(user: Owner): Promise<number>
}
