// Assembles what is done later: the runner of jobs, with a deed for each kind, webhooks and removals among them.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Egress } from '../agent/mcp/egress.ts'
import type { StatePort } from '../agent/states.ts'
import type { Audit } from '../auth/audit.ts'
import { type People, passwordPage } from '../auth/people.ts'
import type { InnerCalls } from '../auth/credentials.ts'
import { callerOfRun } from '../base/loopback.ts'
import type { Config } from '../config/config.ts'
import { Failure } from '../base/errors.ts'
import { keptLine } from '../files/kept-line.ts'
import type { Log } from '../http/server.ts'
import { type TurnRefused, turnDeed } from '../jobs/crons.ts'
import { departureDeed } from '../jobs/departures.ts'
import { Removals } from '../jobs/removals.ts'
import { sendMail, senderOf } from '../jobs/mail-server.ts'
import { passwordMailDeed } from '../jobs/password-mails.ts'
import { JobRunner, type JobType } from '../jobs/runner.ts'
import { VAPID_FILE, WebPush } from '../jobs/web-push.ts'
import { Webhooks } from '../jobs/webhooks.ts'
import { callerOfCron, orderOfCron } from '../langgraph/api/crons.ts'
import { noticeDeed } from '../jobs/notices.ts'
import { noticeOf, pushed } from '../protocols/a2a/push.ts'
import { lastOfTask } from '../protocols/tasks.ts'
import { finalValuesOf, runView } from '../routes/run-view.ts'
import type { CustomApp } from '../langgraph/project/custom-app.ts'
import { removeThread } from '../routes/remove-thread.ts'
import type { Services } from '../routes/services.ts'
import { WriteRefused } from '../run/commit/outage.ts'
import type { Committer } from '../run/commit/committer.ts'
import type { Registry } from '../run/lifecycle/registry.ts'
import { newsKey } from '../run/lifecycle/run-readers.ts'
import { threadIdFor } from '../run/lifecycle/runs.ts'
import type { Op, Store, Writer } from '../store/store.ts'
import type { Grant } from '../base/accounts.ts'
import type { Cron, Run, Timestamp } from '../base/types.ts'

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000
/** Half an hour in all: a mail that comes later surprises. */
const PROMPT = { attempts: 6, retryMs: 5_000, retryMsMax: 3_600_000 } as const
/** Retries of what only this service is asked for. */
const PATIENT = { attempts: 10, retryMs: 5_000, retryMsMax: 3_600_000 } as const

interface JobParts {
  readonly config: Config
  readonly log: Log
  readonly store: Store
  readonly committer: Committer
  readonly services: Services
  readonly webhooks: Webhooks
  readonly webPush: WebPush
  readonly removals: Removals
  /** Whether the account of a cron's caller was removed. */
  readonly isGone: (caller: ReturnType<typeof callerOfCron>) => Promise<boolean>
  /** Ends the streams of a user, and removes all files; true: there were some. */
  readonly forgetUser: (userId: string) => Promise<boolean>
  readonly audit: Audit
  readonly people: People
  /** Under which the service listens. */
  readonly ownUrl: () => string
}

export function composeJobs(parts: JobParts): JobRunner {
  const { config, log, store, committer, services, webhooks, removals } = parts
  const self = randomUUID()
  const departure = departureDeed({
    isHeld: (userId) => store.holds.isHeld('account', userId),
    threadsOf: (userId, limit) => store.threads.idsOf(userId, limit),
    removeThread: (threadId) => removeThread(services, threadId, null).then(() => {}, unlessGone),
    agents: () => services.states.graphs().map(({ id }) => id),
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
  // Tells where the client of a task has asked for it later.
  const push = noticeDeed({
    lastOf: (task) => lastOfTask(store.runs, task),
    noticeOf: (run, wanted) => noticeOf(services, run, wanted),
    send: (delivery, signal) => webhooks.send(delivery, signal),
    write: (ops, owner) => writeOrRefused(committer, ops, owner)
  })
  const { attempts, retry_ms: retryMs } = config.webhooks
  return new JobRunner({
    reads: store.jobs,
    owner: () => store.peers?.id ?? self,
    write: (ops, owner) => writeOrRefused(committer, ops, owner),
    types: {
      webhook: { deed: webhooks.deed, attempts, retryMs, retryMsMax: DAY_MS },
      push: { deed: push, attempts, retryMs, retryMsMax: DAY_MS },
      web_push: { deed: parts.webPush.deed, attempts: 5, retryMs: 5_000, retryMsMax: DAY_MS },
      removal: { ...PATIENT, deed: removals.deed },
      departure: { ...PATIENT, deed: departure },
      ...(config.mail.url !== null && { mail: { ...PROMPT, deed: passwordMail(parts, config.mail.url) } }),
      ...(config.crons.enabled && { turn: { ...PATIENT, deed: turn } })
    },
    log
  })
}

/** Where the page takes a link, as in mails: a request has no say in it. */
function passwordMail({ config: { mail, server }, people, ownUrl }: JobParts, mailUrl: string): JobType['deed'] {
  const minutes = mail.link_minutes
  const base = () => (server.public_url ?? ownUrl()).replace(/\/+$/, '')
  const options = { url: mailUrl, from: senderOf({ mail, server }) }
  return passwordMailDeed({
    linkOf: async (userId) => {
      const made = await people.mailedPasswordLink(userId, minutes * MINUTE_MS)
      return made && { to: made.user.email, url: passwordPage(base(), made.text) }
    },
    minutes,
    send: (message, signal) => sendMail(options, message, signal),
    sent: (userId, request) => people.passwordMailed(userId, request)
  })
}

interface LaterParts {
  readonly config: Config
  readonly log: Log
  readonly store: Store
  readonly writer: Writer
  readonly registry: Registry
  readonly states: StatePort
  readonly innerCalls: InnerCalls
  /** The operator's own routes; null: none. */
  readonly app: Pick<CustomApp, 'call'> | null
  /** Complete when the first deed is done. */
  readonly services: () => Services
}

/** Webhooks, posted to receivers elsewhere, or as their run's user to the operator's own routes. */
export function composeWebhooks({ config, store, registry, states, innerCalls, app }: LaterParts): Webhooks {
  const egress = new Egress(config.webhooks.allowed_networks, undefined, 'webhooks.allowed_networks')
  return new Webhooks({
    store,
    view: runView,
    valuesOf: (run) => finalValuesOf(run, states, registry.readers),
    told: (run) => pushed({ registry, store }, run),
    post: async (address, init, run) => {
      if (!address.startsWith('/') || !app) return egress.fetch(address, init)
      const caller = callerOfRun(run.user_id, run.kwargs)
      if (caller === null) throw new Error('the run has no user')
      return app.call(address, init, await innerCalls.principalFor(caller))
    },
    options: config.webhooks
  })
}

/** Who is told by Web Push, under the networks of webhooks. */
export function composeWebPush(
  { config, log, store, registry }: LaterParts,
  committer: Committer,
  isValid: (grant: Grant) => Promise<boolean>
): WebPush {
  const { webhooks, server, home } = config
  const egress = new Egress(webhooks.allowed_networks, undefined, 'webhooks.allowed_networks')
  const file = join(home, VAPID_FILE)
  return new WebPush({
    store,
    write: (ops) => committer.writeAll(ops, 'limited'),
    keys: { areMade: () => existsSync(file), line: (make) => keptLine(file, make) },
    subject: server.public_url?.startsWith('https:') ? server.public_url : 'mailto:colloquy@localhost',
    post: (address, init) => egress.fetch(address, init),
    isValid,
    isWatched: (userId) => registry.watchers.isWatched(newsKey(userId)),
    timeoutMs: webhooks.timeout_ms,
    onTrouble: (error) => log.warn({ err: error }, 'the browsers of a user are not told of the end of a run')
  })
}

/** Threads that go by themselves, the same way as by request. */
export function composeRemovals({ config, log, store, writer, services }: LaterParts): Removals {
  return new Removals({
    store,
    remove: (threadId, finish, owner) =>
      removeThread(services(), threadId, null, { finish, owner }).then(
        () => true,
        (error: unknown) => {
          if (error instanceof Failure && error.status < 500) return error.code === 'thread_not_found'
          throw error
        }
      ),
    removeFiles: (threadId, owner) => services().removeFiles(threadId, owner),
    change: (op) => writer.write(op),
    graceMs: config.runs.temporary_grace_ms,
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
