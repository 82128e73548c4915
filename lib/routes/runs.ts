// Runs: create (in the background, as a stream, waiting), list, get, cancel, join.
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import * as v from 'valibot'
import { fail, Invalid } from '../errors.ts'
import { type Call, type Reply, TAKEN } from '../http/call.ts'
import { requirePermission } from '../http/guards.ts'
import { longReply, openStream } from '../http/open-answer.ts'
import { type Route, route } from '../http/route.ts'
import { isId, issue, objectOf, queryBoolean, queryInteger } from '../http/schema.ts'
import { ROLLED_BACK } from '../run/lifecycle/ending.ts'
import type { Reader } from '../run/delivery/joiner.ts'
import type { Joining } from '../run/delivery/joining.ts'
import { readPosition } from '../run/delivery/sse.ts'
import { isVisible } from '../scope.ts'
import type { Admission } from '../store/store.ts'
import { newThread } from '../thread/thread.ts'
import { streamedJson } from '../thread/state.ts'
import { isInFlight, type Run, timestamp } from '../types.ts'
import { keyOf, threadIdFor } from './idempotency-key.ts'
import { modesIn, positionText, wantsSnapshot, wantsStream } from './join-request.ts'
import { newRun, type RunBody, runBody, runView, threadIdIn } from './run-request.ts'
import type { Services } from './services.ts'

/** How long a cancel waits to hear from the run's own process whether it came in time, in ms. */
const CANCEL_WAIT_MS = 5000

const action = v.optional(v.picklist(['interrupt', 'rollback']))
const cancelQuery = objectOf({ wait: v.optional(queryBoolean, 'false'), action })
const listQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 100 }), '100'),
  offset: v.optional(queryInteger({ min: 0 }), '0'),
  status: v.optional(v.picklist(['pending', 'running', 'success', 'error', 'timeout', 'interrupted']))
})
const streamQuery = objectOf({ wait: v.optional(queryBoolean, 'false'), action })

export function runRoutes(services: Services): Route[] {
  const { config, store, writer, registry, agent, notReady } = services

  // ------------------------------------------------------------------------------------------------ create

  /** A strategy that ends other runs of the thread is a cancel of them. */
  const checkStrategy = (call: Call<RunBody>): void => {
    const { multitask_strategy: strategy } = call.body
    if (strategy === 'interrupt' || strategy === 'rollback') requirePermission(call, 'runs:cancel')
  }

  /** Asked before anything is made: a refusal leaves nothing behind. */
  const admitRun = (call: Call): void => {
    const reason = notReady()
    if (reason !== null) throw fail('not_ready', { reason }, { 'Retry-After': '5' })
    if (!registry.hasSpaceForRun(call.user!.id, keyOf(call))) throw fail('too_many_runs', null, { 'Retry-After': '5' })
  }

  const requested = (call: Call<RunBody>, threadId: string): ReturnType<typeof newRun> => {
    const models = agent.models?.().map((model) => model.name) ?? []
    const request = { threadId, userId: call.user!.id, body: call.body, key: keyOf(call), path: call.path }
    return newRun(request, { onDisconnect: config.runs.on_disconnect, models })
  }

  const create = async (call: Call<RunBody>, threadId: string): Promise<Run> => {
    checkStrategy(call)
    admitRun(call)
    const { run, autoFollowUp } = requested(call, threadId)
    const base = run.kwargs.checkpoint_id
    if (typeof base === 'string' && !(await store.checkpoints.load(threadId, base, [])))
      throw fail('checkpoint_not_found', { id: base })
    // Once more: others may have come while we waited, and from here on none can.
    admitRun(call)
    return admitted(await registry.create(run, autoFollowUp), threadId)
  }

  const admitted = (admission: Admission, threadId: string): Run => {
    switch (admission.outcome) {
      case 'created':
      case 'repeated':
        return admission.run
      case 'busy':
        throw fail('thread_busy', { id: threadId })
      case 'key_reused':
        throw fail('idempotency_conflict')
      case 'thread_missing':
        throw fail('thread_not_found', { id: threadId })
    }
  }

  /** A stateless run goes on in the thread that its configuration names, or in a new one, which stays. */
  const createStateless = async (call: Call<RunBody>): Promise<Run> => {
    checkStrategy(call)
    admitRun(call)
    const named = threadIdIn(call.body)
    if (named !== null && !isId(named))
      throw new Invalid([issue('string_pattern_mismatch', ['body', 'config', 'configurable', 'thread_id'])])
    const key = keyOf(call)
    // Read, and asked whether its key came before, ahead of the thread: a request that is refused leaves nothing behind. With an
    // id that no thread has: a run is found by its key or not made, and whose thread the real one is is not known yet.
    const probe = requested(call, randomUUID())
    const known = key === null ? null : await writer.write({ name: 'run.create', ...probe })
    if (known && known.outcome !== 'thread_missing') return admitted(known, probe.run.thread_id)
    const threadId = named ?? (key === null ? randomUUID() : threadIdFor(call.user!.id, key))
    const { assistant_id, metadata } = call.body
    const given = {
      thread_id: threadId,
      user_id: call.user!.id,
      assistant_id: assistant_id ?? null,
      metadata: metadata ?? {}
    }
    const made = await writer.write({ name: 'thread.create', ...newThread(given, timestamp()) })
    if (!made) throw fail('thread_not_found', { id: threadId })
    return create(call, threadId)
  }

  /** Asked before a run is created: a refusal afterwards would make its client try again, and start a second one. */
  const admitStream = (call: Call): void => {
    if (!registry.hasSpaceForStream(call.user!.id)) throw fail('too_many_streams', null, { 'Retry-After': '5' })
  }

  const background = (run: Run): Reply => ({ json: runView(run), headers: locationOf(run) })

  const stream = async (call: Call<RunBody>, made: () => Promise<Run>): Promise<typeof TAKEN> => {
    admitStream(call)
    const run = await made()
    const wire = openStream(call, { headers: locationOf(run) })
    await registry.join(run, { ...readingOf(call), wire, modes: call.body.stream_mode ?? null, isCreator: true })
    return TAKEN
  }

  const wait = async (
    call: Call,
    run: Run,
    headers: Record<string, string>,
    isCreator: boolean
  ): Promise<typeof TAKEN> => {
    const reply = longReply(call, { headers })
    const beat = setInterval(() => reply.beat(), config.streams.heartbeat_ms)
    // What we break off is no leaving of the client.
    let isReset = false
    const leave = registry.attend(readerOf(call), () => {
      isReset = true
      reply.reset()
    })
    reply.onClose(() => {
      clearInterval(beat)
      leave()
      if (isCreator && !isReset) registry.creatorLeft(run.run_id)
    })
    // Nothing is said that may still get lost: the client comes back and waits again.
    if (!(await registry.settled(run.run_id))) {
      reply.reset()
      return TAKEN
    }
    // One that had ended when it was looked for has not changed since.
    const ended = isInFlight(run) ? await store.runs.get(run.run_id, null) : run
    // What a stop of ours has cut is not what the run would have led to: the client asks again.
    if (ended?.stop_reason === 'shutdown') reply.reset()
    else reply.end(await finalJson(ended ?? run))
    return TAKEN
  }

  /** What a run has led to: its final values, or what went wrong; never null, which some clients cannot read. */
  const finalJson = async (run: Run): Promise<string> => {
    if (run.status === 'error' || run.status === 'timeout') {
      const message = run.error ?? 'The run failed'
      return JSON.stringify({ __error__: { error: 'RunFailed', message }, status: run.status, error: message })
    }
    const stored = await store.checkpoints.load(run.thread_id, run.final_checkpoint_id)
    return stored ? streamedJson(stored) : JSON.stringify({ status: run.status, error: run.error })
  }

  // --------------------------------------------------------------------------------------- look at, cancel

  /** The run of a path, if it is one of that thread and visible to the caller. */
  const runOf = async (call: Call): Promise<Run> => {
    const { thread_id: threadId, run_id: id } = { thread_id: call.params.thread_id!, run_id: call.params.run_id! }
    const run = await store.runs.get(id)
    if (!run || run.thread_id !== threadId) throw fail('run_not_found', { id })
    return run
  }

  /**
   * The same for who only wants to watch it: of a run that is live here everything is known, and it need not be read. What is
   * visible is the store's rule: one's own, and what nobody owns [Store 1].
   */
  const watchedRunOf = async (call: Call): Promise<Run> => {
    const { params, user } = call
    const run = registry.find(params.run_id!)?.run
    const isOfThread = run?.thread_id === params.thread_id
    return run && user && isOfThread && isVisible(run, user.id) ? run : runOf(call)
  }

  const list = async ({ params, query }: Call<unknown, v.InferOutput<typeof listQuery>>): Promise<Reply> => {
    const { limit, offset, status } = query
    const runs = await store.runs.list(params.thread_id!, { limit, offset, ...(status && { status }) })
    return { json: runs.map(runView) }
  }

  /** Cancels a run; refused when it has ended, unless a cancel has ended it. */
  const cancelled = async (run: Run, how: 'interrupt' | 'rollback', untilEnded: boolean): Promise<void> => {
    const { run_id: id } = run
    await registry.arrived(id)
    const isDone = registry.cancel(id, how)
    // Its process is told until it has ended.
    const isTold = !isDone && (await registry.cancelElsewhere(id, how))
    if (isTold && !untilEnded && !(await endsSoon(id))) return
    if ((!isDone || untilEnded) && !(await registry.settled(id)))
      throw fail('store_unavailable', { reason: 'the end of the run is not stored yet' }, { 'Retry-After': '5' })
    if (isDone) return
    const { status, error } = (await store.runs.get(id, null)) ?? run
    const isRolledBack = isTold && how === 'rollback' && error === ROLLED_BACK
    if (status !== 'interrupted' && !isRolledBack) throw fail('run_not_cancellable', { id, status })
  }

  /** Whether the run of another process ends while a request can be kept waiting for it. */
  const endsSoon = async (id: string): Promise<boolean> => {
    const late = new AbortController()
    const timeout = pause(CANCEL_WAIT_MS, false, { signal: late.signal }).catch(() => false)
    const isOver = await Promise.race([registry.settled(id), timeout])
    late.abort()
    return isOver
  }

  const cancel = async (call: Call<unknown, v.InferOutput<typeof cancelQuery>>): Promise<Reply> => {
    const run = await runOf(call)
    await cancelled(run, call.query.action ?? 'interrupt', call.query.wait)
    return { status: call.query.wait ? 204 : 202 }
  }

  const join = async (call: Call): Promise<typeof TAKEN> => {
    const run = await runOf(call)
    return wantsStream(call) ? joined(call, run) : wait(call, run, {}, false)
  }

  const joined = async (call: Call, run: Run): Promise<typeof TAKEN> => {
    admitStream(call)
    const wire = openStream(call)
    await registry.join(run, { ...readingOf(call), wire, modes: modesIn(call), isSnapshot: wantsSnapshot(call) })
    return TAKEN
  }

  /** POST with an action cancels first. A GET never changes anything, whatever it says. */
  const cancelThenStream = async (
    call: Call<unknown, v.InferOutput<typeof streamQuery>>
  ): Promise<Reply | typeof TAKEN> => {
    const run = await runOf(call)
    const { action: how, wait: untilEnded } = call.query
    if (how) requirePermission(call, 'runs:cancel')
    if (how) await cancelled(run, how, untilEnded)
    if (how && untilEnded) return { status: 204 }
    return joined(call, run)
  }

  const readerOf = ({ user, right }: Call): Reader => ({
    userId: user?.id ?? null,
    credential: right?.digest ?? null,
    holds: async () => right === null || services.holds(right)
  })

  /** Who reads, and what was seen of the run before. */
  const readingOf = (call: Call): Pick<Joining, 'reader' | 'position'> => ({
    reader: readerOf(call),
    position: readPosition(positionText(call))
  })

  const thread = '/api/threads/{thread_id}/runs'
  const run = `${thread}/{run_id}`
  const threadOf = (call: Call): string => call.params.thread_id!
  const creating = {
    method: 'POST',
    access: 'user',
    permission: 'runs:create',
    body: runBody,
    bodyOptional: true
  } as const
  const watching = { access: 'user', permission: 'runs:read', thread: 'read' } as const
  return [
    route({
      ...creating,
      path: thread,
      thread: 'write',
      handler: async (call) => background(await create(call, threadOf(call)))
    }),
    route({
      ...creating,
      path: `${thread}/stream`,
      thread: 'write',
      handler: (call) => stream(call, () => create(call, threadOf(call)))
    }),
    route({
      ...creating,
      path: `${thread}/wait`,
      thread: 'write',
      handler: async (call) => {
        const made = await create(call, threadOf(call))
        return wait(call, made, locationOf(made), true)
      }
    }),
    route({ ...creating, path: '/api/runs', handler: async (call) => background(await createStateless(call)) }),
    route({
      ...creating,
      path: '/api/runs/stream',
      handler: (call) => stream(call, () => createStateless(call))
    }),
    route({
      ...creating,
      path: '/api/runs/wait',
      handler: async (call) => {
        const made = await createStateless(call)
        return wait(call, made, locationOf(made), true)
      }
    }),
    route({ ...watching, method: 'GET', path: thread, query: listQuery, handler: list }),
    route({
      ...watching,
      method: 'GET',
      path: run,
      handler: async (call) => ({ json: runView(await runOf(call)) })
    }),
    route({
      method: 'POST',
      path: `${run}/cancel`,
      access: 'user',
      permission: 'runs:cancel',
      thread: 'write',
      query: cancelQuery,
      handler: cancel
    }),
    route({ ...watching, method: 'GET', path: `${run}/join`, handler: join }),
    route({
      ...watching,
      method: 'GET',
      path: `${run}/stream`,
      handler: async (call) => joined(call, await watchedRunOf(call))
    }),
    route({
      ...watching,
      method: 'POST',
      path: `${run}/stream`,
      thread: 'write',
      query: streamQuery,
      handler: cancelThenStream
    })
  ]
}

/** Where a run is found: for clients that read its id from there, and for those that reconnect by it [langgraph 1.1]. */
function locationOf({ thread_id, run_id }: Run): Record<string, string> {
  return {
    'Content-Location': `/api/threads/${thread_id}/runs/${run_id}`,
    Location: `/threads/${thread_id}/runs/${run_id}/stream`
  }
}
