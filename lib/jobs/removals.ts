// The job that removes a thread which has expired, was long unused, or was made for one run, as soon as nobody reads it.
import { Poller } from '../base/poller.ts'
import type { Job, NewJob, Op, OpOf, Store } from '../store/store.ts'
import { type Done, finishOf } from './runner.ts'

const MINUTE_MS = 60_000
/** How long a removal waits for a run in flight, in ms, before it looks again. */
const IN_FLIGHT_MS = 60_000
/** Renewals within a grace: two may fail. */
const RENEWALS = 3
/** How long the process that removes a thread has for its files, in ms, before another one looks after them. */
const FILES_MS = 10_000

interface RemovalsDeps {
  readonly store: {
    readonly runs: Pick<Store['runs'], 'inFlight'>
    readonly threads: Pick<Store['threads'], 'ownerOf' | 'get'>
    readonly jobs: Pick<Store['jobs'], 'now'>
  }
  /** Removes the thread with everything that belongs to it, in one group with `finish`. False: refused. */
  readonly remove: (threadId: string, finish: Op, owner: string) => Promise<boolean>
  /** Removes what a thread has beside rows, whose owner this was. */
  readonly removeFiles: (threadId: string, owner: string | null) => Promise<unknown>
  readonly change: (op: OpOf<'job.change'>) => Promise<unknown>
  /** How long a temporary thread is kept for a client that was cut off, in ms. */
  readonly graceMs: number
  readonly log: { warn(fields: object, text: string): void }
}

export class Removals {
  readonly #deps: RemovalsDeps
  /** Readers in this process, by temporary thread. */
  readonly #read = new Map<string, number>()
  readonly #poller: Poller

  constructor(deps: RemovalsDeps) {
    this.#deps = deps
    this.#poller = new Poller({
      everyMs: Math.max(1, Math.floor(deps.graceMs / RENEWALS)),
      work: () => this.#renew(),
      onError: (error) =>
        deps.log.warn({ err: error }, 'threads that are read could not be kept; the next turn tries again')
    })
  }

  start(): void {
    this.#poller.start()
  }

  stop(): Promise<void> {
    return this.#poller.stop()
  }

  /** Sets a time to live, in minutes, in place of an earlier one. */
  static ttl(threadId: string, userId: string | null, minutes: number) {
    const payload = JSON.stringify({ minutes })
    return {
      kind: 'removal',
      key: threadId,
      user_id: userId,
      thread_id: threadId,
      due: Math.ceil(minutes * MINUTE_MS),
      payload
    } as const
  }

  /** Removes the files of a thread that is removed now, if its process does not come to it. */
  static files(threadId: string, userId: string | null): NewJob {
    const payload = JSON.stringify({ files: true })
    return { kind: 'removal', key: threadId, user_id: userId, thread_id: null, due: FILES_MS, payload }
  }

  /** Keeps a temporary thread until the returned function is called, and for the grace after that. */
  hold(threadId: string, isNew: boolean): () => void {
    const { graceMs, log } = this.#deps
    this.#read.set(threadId, (this.#read.get(threadId) ?? 0) + 1)
    // That of a new run is far away.
    if (!isNew)
      this.#put(threadId, graceMs).catch((error: unknown) =>
        log.warn({ err: error, thread_id: threadId }, 'a thread that is read could not be kept')
      )
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const left = this.#read.get(threadId)! - 1
      if (left > 0) this.#read.set(threadId, left)
      else this.#read.delete(threadId)
    }
  }

  readonly deed = async (job: Job): Promise<Done> => {
    const { store, remove } = this.#deps
    if (isOfFiles(job.payload)) return this.#removeFiles(job)
    const wait = (due: number) => ({ due, error: null, isUncounted: true }) as const
    const early = job.due_at !== null && Date.parse(job.due_at) > Date.parse(await store.jobs.now())
    // Set by a clock that was ahead.
    if (early) return wait(Math.ceil(minutesIn(job.payload) * MINUTE_MS))
    const since = unusedSince(job.payload)
    if (since !== null && (await this.#isUsed(job.key, since))) return null
    if ((await store.runs.inFlight(job.key)).length > 0) return wait(IN_FLIGHT_MS)
    return (await remove(job.key, finishOf(job, null), job.owner ?? '')) ? 'ended' : wait(IN_FLIGHT_MS)
  }

  /** It has changed since it was found to be old enough to go. */
  async #isUsed(threadId: string, since: string): Promise<boolean> {
    const thread = await this.#deps.store.threads.get(threadId, null)
    return thread !== null && Date.parse(thread.updated_at) >= Date.parse(since)
  }

  async #removeFiles({ key, user_id }: Job): Promise<Done> {
    const { store, removeFiles } = this.#deps
    // A new thread of this id has the files now.
    if ((await store.threads.ownerOf(key)) === undefined) await removeFiles(key, user_id)
    return null
  }

  async #renew(): Promise<void> {
    await Promise.all([...this.#read.keys()].map((threadId) => this.#put(threadId, this.#deps.graceMs)))
  }

  #put(threadId: string, due: number): Promise<unknown> {
    return this.#deps.change({ name: 'job.change', kind: 'removal', key: threadId, thread_id: threadId, due })
  }
}

/** 0: it has no time to live. */
export function minutesIn(payload: string): number {
  // Written by `Removals.ttl`, or by the end of a run.
  const { minutes } = JSON.parse(payload) as { readonly minutes?: number | null }
  return minutes ?? 0
}

/** null: another reason than its age. */
function unusedSince(payload: string): string | null {
  // Written by the sweep of old threads, or one of the others.
  return (JSON.parse(payload) as { readonly unused_since?: string }).unused_since ?? null
}

function isOfFiles(payload: string): boolean {
  // Written by `Removals.files`, or one of the others.
  return (JSON.parse(payload) as { readonly files?: boolean }).files === true
}
