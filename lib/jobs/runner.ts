// Works off the jobs: claims what is due, does the deed of its kind, and ends the claim. What crashes meanwhile is done by the next
// process; a deed may therefore be done again, unless it ends its claim in the same group as what it writes.
import { messageOf } from '../base/errors.ts'
import { backoffMs } from '../base/waiting.ts'
import { Poller } from '../base/poller.ts'
import type { Due, Group, Job, JobReads, Op, OpName, OpOf, Outcome } from '../store/store.ts'
import { cutTo, type JobKind } from '../base/types.ts'

/** The longest time between looks at the table, in ms: jobs of processes that are gone are found by nothing else. */
const LOOK_MS = 5_000
/** Delay after a look that another process was faster than, in ms. */
const BUSY_MS = 200
/** Jobs in progress in this process. */
const AT_ONCE = 32
/** Jobs of one user in progress on all processes, whose receivers may all hang. */
const PER_USER = 8
const FACTOR = 4
const ERROR_LENGTH_MAX = 1000

/** What a deed leaves: nothing (null), the job at another time, or a claim that it has ended itself. */
export type Done = null | 'ended' | { readonly due: Due; readonly error: string | null; readonly isUncounted: true }

export interface JobType {
  /** @throws when it has failed: it is tried again. `signal`: the process stops. */
  readonly deed: (job: Job, signal: AbortSignal) => Promise<Done>
  readonly attempts: number
  /** Delay after the first failure, in ms; four times as long after each further one. */
  readonly retryMs: number
  readonly retryMsMax: number
}

interface RunnerDeps {
  readonly reads: Pick<JobReads, 'dueIn'>
  /** Id of this process as an owner [Store 10]. */
  readonly owner: () => string
  /** Writes as one group. null: refused. */
  readonly write: (ops: readonly Op[], owner?: string) => Promise<readonly unknown[] | null>
  readonly types: Partial<Readonly<Record<JobKind, JobType>>>
  readonly log: { warn(fields: object, text: string): void }
}

/** Ends the claim on a job. */
export function finishOf({ kind, key, thread_id, owner }: Job, again: OpOf<'job.finish'>['again']): OpOf<'job.finish'> {
  return { name: 'job.finish', kind, key, thread_id, owner: owner ?? '', again }
}

/** Ops that may make jobs. */
const MAKING: ReadonlySet<OpName> = new Set([
  'run.settle',
  'thread.create',
  'job.put',
  'job.change',
  'cron.create',
  'cron.update'
])

export class JobRunner {
  /** The commits that concern it. */
  readonly ops = MAKING
  readonly #deps: RunnerDeps
  readonly #kinds: readonly JobKind[]
  readonly #inProgress = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #poller: Poller

  constructor(deps: RunnerDeps) {
    this.#deps = deps
    // The members of an object are those of its type, where it is a literal.
    this.#kinds = Object.keys(deps.types) as JobKind[]
    this.#poller = new Poller({
      everyMs: LOOK_MS,
      work: () => this.look(),
      onError: (error) => deps.log.warn({ err: error }, 'due jobs could not be looked up; the next look tries again')
    })
  }

  start(): void {
    this.#poller.start(0)
  }

  /** Aborts deeds in progress; the next process does them. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#poller.stop()
    await Promise.allSettled(this.#inProgress)
  }

  /** A commit: jobs that it made are looked for when they are due. */
  written(groups: readonly Group[], outcomes: readonly Outcome[]): void {
    for (const [at, { ops }] of groups.entries())
      if (outcomes[at]?.ok) for (const op of ops) for (const due of duesIn(op)) this.#poller.wakeIn(msUntil(due))
  }

  /** One look: starts what is due. Answers in how many ms to look again. */
  async look(): Promise<number> {
    const { reads, owner } = this.#deps
    const limit = AT_ONCE - this.#inProgress.size
    if (limit <= 0 || this.#stopping.signal.aborted) return LOOK_MS
    const claim = { owner: owner(), perUser: PER_USER, kinds: this.#kinds }
    const ms = await reads.dueIn(claim)
    if (ms !== 0) return ms ?? LOOK_MS
    const [claimed] = (await this.#deps.write([{ name: 'job.claim', ...claim, limit }])) ?? []
    // The result of a claim.
    const jobs = (claimed ?? []) as readonly Job[]
    for (const job of jobs) this.#begin(job)
    return jobs.length > 0 ? 0 : BUSY_MS
  }

  #begin(job: Job): void {
    const work = this.#do(job)
      .catch((error: unknown) =>
        // Its claim ends with this process.
        this.#deps.log.warn({ err: error, kind: job.kind, key: job.key }, 'the end of a job could not be stored')
      )
      .finally(() => {
        this.#inProgress.delete(work)
        this.#poller.wakeIn(0)
      })
    this.#inProgress.add(work)
  }

  async #do(job: Job): Promise<void> {
    const type = this.#deps.types[job.kind]!
    try {
      // It has ended its process every time.
      if (job.attempts > type.attempts) throw new Error(job.last_error ?? 'its process ended')
      const done = await type.deed(job, this.#stopping.signal)
      if (done !== 'ended') await this.#finish(job, done)
    } catch (error) {
      await this.#failed(job, type, messageOf(error))
    }
  }

  async #failed(job: Job, type: JobType, reason: string): Promise<void> {
    const { kind, key, attempts } = job
    const error = cutTo(reason, ERROR_LENGTH_MAX)
    // The next process need not wait.
    if (this.#stopping.signal.aborted) return this.#finish(job, { due: 0, error: job.last_error })
    const about = { kind, key, attempts, reason: error }
    if (attempts < type.attempts) {
      this.#deps.log.warn(about, 'a job has failed: it will be tried again')
      return this.#finish(job, {
        due: backoffMs(attempts - 1, { first: type.retryMs, most: type.retryMsMax, factor: FACTOR }),
        error
      })
    }
    this.#deps.log.warn(about, 'a job has failed: giving up, unless somebody retries it')
    await this.#finish(job, { due: null, error })
  }

  /** Refused when it was set anew meanwhile, or this process has lost its lease: then it is somebody else's. */
  async #finish(job: Job, again: OpOf<'job.finish'>['again']): Promise<void> {
    await this.#deps.write([finishOf(job, again)], job.owner ?? undefined)
  }
}

/** When the jobs that an op makes are due. */
function duesIn(op: Op): readonly Due[] {
  switch (op.name) {
    case 'run.settle':
      return (op.jobs ?? []).map(({ due }) => due)
    case 'thread.create':
      return op.removal ? [op.removal.due] : []
    case 'job.put':
      return [op.job.due]
    case 'job.change':
      return op.due === undefined ? [] : [op.due]
    case 'cron.create':
      return op.cron.next_run_date === null ? [] : [op.cron.next_run_date]
    case 'cron.update':
      return op.set.next_run_date ? [op.set.next_run_date] : []
    default:
      return []
  }
}

/** About: the clock of the database decides. */
function msUntil(due: Due): number {
  return Math.max(0, typeof due === 'number' ? due : Date.parse(due) - Date.now())
}

// ------------------------------------------- jobs changed by hand: made due now, with all their attempts, or dropped

export type JobChange = 'retry' | 'drop'

interface JobChanges {
  readonly jobs: Pick<JobReads, 'get'>
  /** Resolves with what the op answers. */
  readonly write: (op: Op) => Promise<unknown>
  /** The line of the audit. */
  readonly changed: (how: JobChange, job: { readonly kind: JobKind }) => Promise<void>
}

/** False: there is no such job. Whoever is at it goes on; its end does not count. */
export async function changeJob(
  { jobs, write, changed }: JobChanges,
  kind: JobKind,
  key: string,
  how: JobChange
): Promise<boolean> {
  const found = await jobs.get(kind, key)
  if (found === null) return false
  const job = { kind, key, thread_id: found.thread_id }
  const isDone = await write(how === 'retry' ? { name: 'job.change', ...job, due: 0 } : { name: 'job.remove', ...job })
  if (isDone !== true) return false
  await changed(how, { kind })
  return true
}
