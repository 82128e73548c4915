// A task of a protocol: a run, and behind a question the run that answers it, whoever has answered and over which protocol. Starts runs
// with the caller's rights, as the routes of runs do.
import { randomUUID } from 'node:crypto'
import { type Call, requirePermission, type UserCall } from '../http/route.ts'
import { Failure, fail } from '../base/errors.ts'
import { CONTRACT } from '../http/dialect.ts'
import { check, isId } from '../http/schema.ts'
import { Authorizer } from '../routes/authorization.ts'
import { alreadyEnded, callerIn, orderFor, runBody } from '../routes/run-request.ts'
import type { Services } from '../routes/services.ts'
import type { RequestKey } from './repeats.ts'
import { newestRuns } from './threads.ts'
import { interruptsIn } from '../conversation/interrupts.ts'
import { stopError } from '../run/log/frame.ts'
import { graceOf } from '../run/run-kwargs.ts'
import { type Interrupt, isInFlight, isObject, type Json, type JsonObject, type Run } from '../base/types.ts'

export interface Task {
  /** Its id is the task's. */
  readonly first: Run
  /** The run it has come to. */
  readonly last: Run
  /** Those before it: their questions are answered. */
  readonly answered: ReadonlySet<string>
  /** All of them, in their order. */
  readonly runs: readonly Run[]
}

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A run to start. */
export interface Asked {
  /** null: the first one. */
  readonly assistant: string | null
  /** null: a new thread. */
  readonly threadId: string | null
  /** Members of a run's request: its input or command, metadata, a webhook. */
  readonly body: JsonObject
  /** Without a reader for so long it is given up; null: it goes on. */
  readonly graceMs?: number | null
  /** What its protocol has to know of it later. */
  readonly kwargs?: JsonObject
  /** The new thread goes with it. */
  readonly isTemporary?: boolean
  /** The thread is made if it is not there. */
  readonly creates?: boolean
  /** Sent again, it is the same run. */
  readonly request?: RequestKey | null
  /** What the client calls the new thread. */
  readonly named?: { readonly protocol: string; readonly text: string } | undefined
}

/** What a task's readers are shown, whatever they name. */
const MODES = ['values', 'messages-tuple']
/** Questions of one task. */
const RUNS_MAX = 256
/** Of a run's kwargs, which no client writes: the task that it goes on with. A client may have a `task_id` of its own in its metadata. */
const TASK = 'task_id'

/** Whether it has ended with a question. */
export function asks({ status, stop_reason }: Pick<Run, 'status' | 'stop_reason'>): boolean {
  return status === 'interrupted' && stop_reason === 'asked_user'
}

export function taskStatus(run: Run): TaskStatus {
  if (isInFlight(run)) return 'working'
  if (asks(run)) return 'input_required'
  if (run.status === 'success') return 'completed'
  return run.status === 'interrupted' && stopError(run) === null ? 'cancelled' : 'failed'
}

/** The task that a run belongs to. */
export function taskIdOf(run: Run): string {
  return continuedBy(run) ?? run.run_id
}

/** The task that it goes on with; null: it is one of its own. */
function continuedBy({ kwargs }: Pick<Run, 'kwargs'>): string | null {
  const id = kwargs[TASK]
  return typeof id === 'string' ? id : null
}

/** The task of a run that was just started. */
export function onlyOf(run: Run): Task {
  return { first: run, last: run, answered: new Set(), runs: [run] }
}

/** The task that begins with a run. `next`: the run of the same thread behind another. */
async function taskFrom(first: Run, next: (run: Run) => Promise<Run | null>): Promise<Task> {
  const answered = new Set<string>()
  const runs = [first]
  let last = first
  while (asks(last) && answered.size < RUNS_MAX) {
    const following = await next(last)
    if (!following) break
    answered.add(last.run_id)
    runs.push(following)
    last = following
  }
  return { first, last, answered, runs }
}

interface RunsOfAll {
  get(id: string, user: null): Promise<Run | null>
  after(threadId: string, ordinal: number, user: null): Promise<Run | null>
}

/** The run that a task has come to, whoever's it is; null: it is gone. */
export async function lastOfTask(runs: RunsOfAll, id: string): Promise<{ run: Run; asks: boolean } | null> {
  const first = await runs.get(id, null)
  if (!first) return null
  const { last } = await taskFrom(first, (run) => runs.after(run.thread_id, run.ordinal, null))
  return { run: last, asks: asks(last) }
}

export class Tasks {
  readonly #services: Services

  constructor(services: Services) {
    this.#services = services
  }

  /** @throws Failure run_not_found, also for one of somebody else */
  async get(call: Call, id: string): Promise<Task> {
    const first = isId(id) ? await this.#services.store.runs.get(id) : null
    if (!first) throw fail('run_not_found', { id: id.slice(0, 64) })
    await this.#mayRead(call, first)
    return this.#from(first)
  }

  /** Tasks of runs as a list has them: those that may be read, none that goes on with another, and none that takes its thread with it. */
  async list(call: Call, runs: readonly Run[]): Promise<Task[]> {
    const tasks: Task[] = []
    for (const run of runs) {
      if (continuedBy(run) !== null || graceOf(run) !== null) continue
      if (!(await this.#mayRead(call, run).then(() => false, isHidden))) tasks.push(await this.#from(run))
    }
    return tasks
  }

  async #mayRead(call: Call, { run_id, thread_id }: Run): Promise<void> {
    const { policy } = this.#services
    if (!policy) return
    await new Authorizer(this.#services, policy.askFor(call)).thread('read', thread_id).catch((error: unknown) => {
      throw isRefusal(error) ? fail('run_not_found', { id: run_id }) : error
    })
  }

  #from(first: Run): Promise<Task> {
    const { runs } = this.#services.store
    return taskFrom(first, (run) => runs.after(run.thread_id, run.ordinal))
  }

  /** @throws Failure as the routes of runs */
  async start(call: UserCall, wanted: Asked): Promise<Run> {
    const { assistant, threadId, body: asked, graceMs = null, isTemporary = false, request: repeated = null } = wanted
    const { policy, runs, store } = this.#services
    requirePermission(call, 'runs:create')
    const ends = graceMs === null ? {} : { on_disconnect: 'cancel' }
    const ours = { stream_mode: MODES, multitask_strategy: 'reject', ...ends }
    const given = check(runBody, { assistant_id: assistant, ...asked, ...ours }, 'body')
    const isThere = threadId !== null && isId(threadId) && (await store.threads.get(threadId)) !== null
    if (threadId !== null && !isThere && !(wanted.creates && isId(threadId)))
      throw fail('thread_not_found', { id: threadId.slice(0, 64) })
    const body = policy ? await new Authorizer(this.#services, policy.askFor(call)).run(given, threadId) : given
    const request = {
      threadId,
      caller: callerIn(this.#services, call),
      body,
      key: repeated?.key ?? null,
      hash: repeated?.hash,
      path: call.path,
      isTemporary
    }
    const headers = this.#services.configurableHeaders.of(call)
    const order = await orderFor(this.#services, { ...request, dialect: CONTRACT, headers })
    const { run } = order
    const kwargs = { ...run.kwargs, ...(graceMs !== null && { disconnect_grace_ms: graceMs }), ...wanted.kwargs }
    const complete = { ...order, run: { ...run, kwargs } }
    if (threadId !== null && isThere) return runs.start(threadId, complete)
    return runs.startStateless({ ...complete, threadId, assistantId: assistant, metadata: {}, named: wanted.named })
  }

  /**
   * Goes on with a task that asks. Of several answers at once one is given.
   * @throws Failure changed_meanwhile, thread_busy when somebody else has answered
   */
  async answer(call: UserCall, { first, last }: Task, resume: Json, more: Partial<Asked> = {}): Promise<Run> {
    if (!asks(last)) throw fail('changed_meanwhile')
    // Also of two that say the same: the second one is told.
    const only = { key: `answer ${last.run_id}`, hash: randomUUID() }
    const request = more.request ?? only
    const body = { ...more.body, command: { resume } }
    const kwargs = { ...more.kwargs, [TASK]: first.run_id }
    const asked = { ...more, assistant: last.assistant_id, threadId: last.thread_id, body, kwargs, request }
    return this.start(call, asked).catch((error: unknown) => {
      const isOther = request === only && error instanceof Failure && error.code === 'idempotency_conflict'
      throw isOther ? fail('changed_meanwhile') : error
    })
  }

  /** Resolves with the task when it has ended. @throws Failure run_not_cancellable */
  async cancel(call: UserCall, task: Task): Promise<Task> {
    requirePermission(call, 'runs:cancel')
    await this.#services.runs.cancel(task.last, 'interrupt', true)
    const last = await this.#services.store.runs.get(task.last.run_id)
    return last ? { ...task, last, runs: [...task.runs.slice(0, -1), last] } : task
  }

  /** The same for one that may have ended. */
  async stop(call: UserCall, task: Task): Promise<void> {
    await this.cancel(call, task).catch(alreadyEnded)
  }

  /** The task that a run belongs to, which has to be the one that it has come to. @throws Failure changed_meanwhile */
  async of(call: Call, runId: string): Promise<Task> {
    const { first } = await this.get(call, runId)
    const task = await this.get(call, taskIdOf(first))
    if (task.last.run_id !== runId) throw fail('changed_meanwhile')
    return task
  }

  /** What a run has asked. */
  async questions({ thread_id, final_checkpoint_id }: Run): Promise<Interrupt[]> {
    const checkpointId = final_checkpoint_id
    const json = await this.#services.states.get(thread_id, { checkpointId, namespace: '' })
    const { tasks } = json === null ? {} : (JSON.parse(json) as JsonObject)
    const all = Array.isArray(tasks) ? tasks.filter(isObject) : []
    return all.flatMap(({ interrupts }) => interruptsIn(interrupts))
  }

  /** The task that a thread waits in; null: it asks nothing. */
  async asking(call: Call, threadId: string): Promise<Task | null> {
    const { runs } = this.#services.store
    const [newest] = isId(threadId) ? await newestRuns(this.#services, threadId) : []
    if (!newest || !asks(newest)) return null
    await this.#mayRead(call, newest)
    const id = continuedBy(newest)
    const first = id === null ? null : await runs.get(id)
    return { first: first ?? newest, last: newest, answered: new Set(), runs: [newest] }
  }
}

/** Of a rule, or of a thread that is hidden or gone; anything else is of the server's state. */
function isRefusal(error: unknown): boolean {
  return error instanceof Failure && error.status < 500 && error.status !== 429
}

/** The same of what is left out of a list. @throws anything else */
function isHidden(error: unknown): true {
  if (error instanceof Failure && error.code === 'run_not_found') return true
  throw error
}

/** Failures that tell the one who asks what to do otherwise; the rest is of the server's state. */
export function isTheirs(error: unknown): error is Failure {
  return error instanceof Failure && error.status < 500 && ![401, 403, 429].includes(error.status)
}
