// The job behind A2A's push configurations: calls a client's URL once each time its task has ended or waits for an answer, and looks
// again while the task is at work. What is sent, and whether the task goes on, says the protocol.
import type { Job, Op } from '../store/store.ts'
import { isInFlight, type JsonObject, type Run } from '../base/types.ts'
import { type Done, finishOf, type JobType } from './runner.ts'
import type { Notice, Webhooks } from './webhooks.ts'

/** How often a task at work is looked at, in ms. */
const WORKING_MS = 2_000
/** The least often that one which waits for an answer is, in ms. */
const ASKING_MS_MAX = 60_000
/** How long it is known after its end, in ms. */
const ENDED_MS = 60_000

/** Of a job `push`: its key names both. */
export interface NoticePayload {
  readonly task: string
  /** Where and how it is told; null: it is told no more. */
  readonly config: (JsonObject & { readonly id: string; readonly url: string }) | null
  /** The run whose end was sent last. */
  readonly sent: string | null
}

interface NoticeDeps {
  /** The run that a task has come to, and whether it waits for an answer; null: it is gone. */
  readonly lastOf: (task: string) => Promise<{ readonly run: Run; readonly asks: boolean } | null>
  readonly noticeOf: (run: Run, config: NonNullable<NoticePayload['config']>) => Promise<Notice>
  readonly send: Webhooks['send']
  /** Writes as one group. null: refused. */
  readonly write: (ops: readonly Op[], owner?: string) => Promise<readonly unknown[] | null>
}

/** @throws Error when it was not delivered, with the reason */
export function noticeDeed({ lastOf, noticeOf, send, write }: NoticeDeps): JobType['deed'] {
  return async (job, signal): Promise<Done> => {
    const payload = payloadIn(job)
    const { config, sent } = payload
    const last = await lastOf(payload.task)
    if (!last) return null
    const { run, asks } = last
    if (isInFlight(run)) return again(WORKING_MS)
    const rest = asks ? again(waitFor(run)) : afterEnd(run)
    if (config === null || sent === run.run_id) return rest
    const { url, id } = config
    const notice = await noticeOf(run, config)
    await send({ ...notice, id: `${run.run_id}.${id}`, url, run, userId: job.user_id }, signal)
    const { kind, key, thread_id } = job
    const known = JSON.stringify({ ...payload, sent: run.run_id } satisfies NoticePayload)
    await write(
      [{ name: 'job.change', kind, key, thread_id, payload: known }, finishOf(job, rest)],
      job.owner ?? undefined
    )
    return 'ended'
  }
}

/** It stays for a while behind the end, so that what it has taken the place of is not sent either. */
function afterEnd({ updated_at }: Run): ReturnType<typeof again> | null {
  return Date.now() - Date.parse(updated_at) < ENDED_MS ? again(ENDED_MS) : null
}

/** A tenth of what it has waited: who has waited for days may be told a minute late. */
function waitFor({ updated_at }: Run): number {
  const age = Date.now() - Date.parse(updated_at)
  return Math.min(ASKING_MS_MAX, Math.max(WORKING_MS, age / 10))
}

function again(due: number) {
  return { due, error: null, isUncounted: true } as const
}

function payloadIn({ payload }: Job): NoticePayload {
  // Written by the protocol that has the task.
  return JSON.parse(payload) as NoticePayload
}
