// Push configurations of Agent2Agent (A2A) that were set after their message: a job each, which waits for the task's ends, whichever process
// and protocol bring them, and is found again after a crash. It also stands for what has taken the place of the message's own.
import type { NoticePayload } from '../../jobs/notices.ts'
import type { Services } from '../../routes/services.ts'
import type { JsonObject, Run } from '../../base/types.ts'
import { INVALID_PARAMS, RpcError } from '../json-rpc.ts'
import type { Task } from '../tasks.ts'
import { inlineConfig, type PushConfig, pushKey } from './push.ts'

/** Configurations of one task. */
const CONFIGS_MAX = 8

type Job = Awaited<ReturnType<Services['store']['jobs']['ofThread']>>[number]

/** The configurations of tasks, as their clients change them. */
export class PushConfigs {
  readonly #services: Pick<Services, 'store' | 'writer' | 'limits'>

  constructor(services: Pick<Services, 'store' | 'writer' | 'limits'>) {
    this.#services = services
  }

  async list({ first }: Pick<Task, 'first'>): Promise<JsonObject[]> {
    const own = inlineConfig(first)
    const later = (await this.#later(first)).map(payloadIn)
    const isReplaced =
      own !== null && later.some(({ config, task }) => pushKey(task, config ?? own) === pushKey(task, own))
    const all = [...(own && !isReplaced ? [own] : []), ...later.flatMap(({ config }) => config ?? [])]
    return all.map((config) => ({ taskId: first.run_id, ...config }))
  }

  /** @throws RpcError for too many; Failure when its user has as many webhooks as may wait */
  async put(
    call: { readonly user: { readonly id: string } },
    { first }: Task,
    config: PushConfig
  ): Promise<JsonObject> {
    const all = await this.list({ first })
    if (all.length >= CONFIGS_MAX && !all.some(({ id }) => id === config.id))
      throw new RpcError(INVALID_PARAMS, `A task has at most ${CONFIGS_MAX} push notification configurations`)
    await this.#services.limits.allowWebhook(call.user.id)
    await this.#write(first, config, config)
    return { taskId: first.run_id, ...config }
  }

  /** False: there is no such one. */
  async remove({ first }: Task, id: string): Promise<boolean> {
    const known = (await this.list({ first })).some((one) => one.id === id)
    if (!known) return false
    // That of the message stands in its run: a job says that it is deleted.
    if (inlineConfig(first)?.id === id) await this.#write(first, { id }, null)
    else await this.#services.writer.write({ name: 'job.remove', ...jobOf(first, { id }) })
    return true
  }

  async #later(first: Run): Promise<Job[]> {
    const jobs = await this.#services.store.jobs.ofThread(first.thread_id)
    return jobs.filter(({ kind, key }) => kind === 'push' && key.startsWith(`${first.run_id}/`))
  }

  async #write(first: Run, named: Pick<PushConfig, 'id'>, config: PushConfig | null): Promise<void> {
    const payload: NoticePayload = { task: first.run_id, config, sent: null }
    const job = { ...jobOf(first, named), user_id: first.user_id, due: 0, payload: JSON.stringify(payload) }
    await this.#services.writer.write({ name: 'job.put', job })
  }
}

function jobOf({ run_id, thread_id }: Run, config: Pick<PushConfig, 'id'>) {
  return { kind: 'push', key: pushKey(run_id, config), thread_id } as const
}

function payloadIn({ payload }: Job): NoticePayload {
  // Written by `PushConfigs`.
  return JSON.parse(payload) as NoticePayload
}
