// Assembles what is done later: the runner of jobs, with a deed for each kind.
import { randomUUID } from 'node:crypto'
import type { Audit } from '../auth/audit.ts'
import type { Config } from '../config/config.ts'
import { Failure } from '../base/errors.ts'
import type { Log } from '../http/server.ts'
import { type TurnRefused, turnDeed } from '../jobs/cron-runs.ts'
import { departureDeed } from '../jobs/departures.ts'
import type { Removals } from '../jobs/removals.ts'
import { JobRunner, type JobType } from '../jobs/runner.ts'
import type { Webhooks } from '../jobs/webhooks.ts'
import { callerOfCron, orderOfCron } from '../langgraph/api/crons.ts'
import { removeThread } from '../routes/remove-thread.ts'
import type { Services } from '../routes/services.ts'
import { type Committer, WriteRefused } from '../run/commit/committer.ts'
import { threadIdFor } from '../run/lifecycle/runs.ts'
import type { Op, Store } from '../store/store.ts'
import type { Cron, Run, Timestamp } from '../base/types.ts'

const DAY_MS = 86_400_000
/** Retries of what only this service is asked for. */
const PATIENT = { attempts: 10, retryMs: 5_000, retryMsMax: 3_600_000 } as const

interface JobParts {
  readonly config: Config
  readonly log: Log
  readonly store: Store
  readonly committer: Committer
  readonly services: Services
  readonly webhooks: Webhooks
  readonly removals: Removals
  /** Tells where a task's client has asked later. */
  readonly push: JobType['deed']
  /** Whether the account of a cron's caller was removed. */
  readonly isGone: (caller: ReturnType<typeof callerOfCron>) => Promise<boolean>
  /** Ends the streams of a user, and removes all files; true: there were some. */
  readonly forgetUser: (userId: string) => Promise<boolean>
  readonly audit: Audit
}

export function composeJobs(parts: JobParts): JobRunner {
  const { config, log, store, committer, services, webhooks, removals } = parts
  const self = randomUUID()
  const departure = departureDeed({
    isHeld: (userId) => store.holds.isHeld('account', userId),
    threadsOf: (userId, limit) => store.threads.idsOf(userId, limit),
    removeThread: (threadId) => removeThread(services, threadId, null).then(() => {}, unlessGone),
    forget: parts.forgetUser,
    write: (ops, owner) => committer.writeAll(ops, 'endless', owner),
    purge: async () => store.purge?.(),
    erased: (userId, by) => parts.audit.erased(userId, by)
  })
  const turn = turnDeed({
    store,
    writer: services.writer,
    isGone: (cron) => parts.isGone(callerOfCron(cron)),
    start: (...given) => startTurn(services, ...given),
    log
  })
  const { attempts, retry_ms: retryMs } = config.webhooks
  return new JobRunner({
    reads: store.jobs,
    owner: () => store.peers?.id ?? self,
    write: (ops, owner) => writeOrRefused(committer, ops, owner),
    types: {
      webhook: { deed: webhooks.deed, attempts, retryMs, retryMsMax: DAY_MS },
      push: { deed: parts.push, attempts, retryMs, retryMsMax: DAY_MS },
      removal: { ...PATIENT, deed: removals.deed },
      departure: { ...PATIENT, deed: departure },
      ...(config.crons.enabled && { turn: { ...PATIENT, deed: turn } })
    },
    log
  })
}

/** Writes as one group, however long the store takes. null: it was refused. */
export async function writeOrRefused(
  committer: Committer,
  ops: readonly Op[],
  owner?: string
): Promise<readonly unknown[] | null> {
  try {
    return await committer.writeAll(ops, 'endless', owner)
  } catch (error) {
    if (error instanceof WriteRefused) return null
    throw error
  }
}

/** Starts the run of a cron's turn, in one group with `finish`. */
async function startTurn(
  services: Services,
  cron: Cron,
  due: Timestamp,
  finish: Op,
  owner: string
): Promise<Run | TurnRefused> {
  const also = { ops: [finish], owner }
  const { thread_id, assistant_id: assistantId, cron_id } = cron
  try {
    const order = await orderOfCron(services, cron)
    if (thread_id !== null) return await services.runs.start(thread_id, order, also)
    const metadata = { ...cron.metadata, cron_id }
    // The thread that a process has left without its run is taken for it.
    const threadId = threadIdFor(cron_id, due)
    return await services.runs.startStateless({ ...order, threadId, assistantId, metadata }, also)
  } catch (error) {
    if (!(error instanceof Failure) || error.status >= 500) throw error
    return { refused: error.message, isGone: error.code === 'thread_not_found' && thread_id !== null }
  }
}

function unlessGone(error: unknown): void {
  if (!(error instanceof Failure) || error.code !== 'thread_not_found') throw error
}
