// Assembles the engine: the committer, the registry's options, and the recovery of the previous process's runs.
import { randomUUID } from 'node:crypto'
import type { Component } from './components.ts'
import type { Agent } from '../agent/runtime.ts'
import type { StatePort } from '../agent/states.ts'
import type { Config } from '../config/config.ts'
import { homeId } from '../files/home.ts'
import { ofHeap } from '../base/budget.ts'
import { fail, warnUnexpected } from '../base/errors.ts'
import { callerOfRun } from '../base/loopback.ts'
import type { InnerCalls } from '../auth/credentials.ts'
import type { Revocation } from '../auth/session.ts'
import type { Services } from '../routes/services.ts'
import { isHeldBy } from '../run/delivery/credential-revalidator.ts'
import { DepartedUsers } from '../run/lifecycle/departed-users.ts'
import type { Log } from '../http/server.ts'
import type { Cluster } from '../run/cluster/cluster.ts'
import { type BuiltStateOptions, BuiltStates } from '../run/built-state.ts'
import { WrittenStates } from '../run/graph-state.ts'
import type { RunStates } from '../run/run-state.ts'
import { WriteRefused } from '../run/commit/outage.ts'
import type { CommitObserver } from '../run/commit/ports.ts'
import { Committer } from '../run/commit/committer.ts'
import { recover, type RecoveryParts } from '../run/lifecycle/recovery.ts'
import type { Registry, RegistryOptions } from '../run/lifecycle/registry.ts'
import { pricesOf } from '../run/log/model-usage.ts'
import { withTimeout } from '../base/waiting.ts'
import { currentUserId } from '../base/scope.ts'
import { type ScopedWriter, scopedWriter } from '../store/scoped.ts'
import type { PeerIdentity, Store } from '../store/store.ts'
import type { StoredLimits } from '../thread/user-limits.ts'

export function newCommitter(config: Config, log: Log, store: Store, observers: readonly CommitObserver[]): Committer {
  return new Committer(store.apply.bind(store), {
    observers,
    flushMs: config.streams.flush_ms,
    stuckAfterMs: config.streams.settle_timeout_ms,
    unstoredMs: config.streams.unstored_ms,
    troubleOf: () => store.trouble ?? null,
    onTrouble: (error, attempts) => log.error({ err: error, attempts }, 'the store does not take a batch; retrying'),
    onRecovered: (attempts) => log.warn({ attempts }, 'the store takes writes again'),
    onBroken: (error) => log.error({ err: error }, 'a run failed while handing over its records')
  })
}

/**
 * Stops the committer. A store that takes nothing must not keep the process alive: what started is ended by the next
 * one [design 4, rule 5].
 */
export function drained(committer: Committer, config: Config, log: Log): Component {
  return {
    async stop() {
      const all = committer.drained().then(() => true)
      if (!(await withTimeout(all, config.streams.settle_timeout_ms)))
        log.error({ reason: committer.stuck }, 'the store did not take all pending writes in time; the rest is lost')
      committer.stop()
    }
  }
}

/** Recovers the runs the previous process left behind. */
export async function takeOver(cluster: Cluster | null, parts: RecoveryParts & { readonly log: Log }): Promise<void> {
  if (cluster) return cluster.serve()
  const found = await recover(await parts.store.runs.unfinished(null), parts)
  if (found.ended || found.resumed) parts.log.warn(found, 'runs of the previous process were ended or queued again')
}

/** How this process introduces itself to its peers: what all of them must have in common. @param secret fingerprint of that of tokens */
export async function identityOf(config: Config, secret: string): Promise<PeerIdentity> {
  return { secret, events: placeOfEvents(config), home: await homeId(config.home) }
}

/** Identifies where run events are stored, for comparison between processes: memory and files are never shared. */
function placeOfEvents({ run_events: { backend } }: Config): string {
  if (typeof backend === 'object') return 'a module'
  return backend === 'db' ? backend : `${backend} of ${randomUUID()}`
}

/** Of the heap: a graph, its checkpoints and its frames take twelve times its state. */
const GRAPH_STATE_PART = 32

/** The states of runs: what the agent's graphs write, or what it records, built by us. */
export function runStatesOf(agent: Agent, states: StatePort, store: Store, options: BuiltStateOptions): RunStates {
  if (agent.states) return new WrittenStates(store, agent.states, ofHeap(options.stateCharacters, GRAPH_STATE_PART))
  return new BuiltStates(store, options, {
    ...(states.elsewhere && { elsewhere: states.elsewhere.bind(states) }),
    showsDetails: agent.showsDetails === true,
    canRejoin: agent.canRejoin === true
  })
}

/** Of the heap: a run takes four times its state, and half of it is for all runs. */
const STATE_PART = 16

export function registryOptions(config: Config): RegistryOptions & BuiltStateOptions {
  const { streams, runs, run_events, threads, title } = config
  return {
    maxTraceContent: run_events.max_trace_content,
    trackTokens: run_events.track_token_usage,
    get prices() {
      return pricesOf(config.models)
    },
    heartbeatMs: streams.heartbeat_ms,
    stallMs: streams.stall_ms,
    coalesceMs: streams.gather_ms ?? streams.coalesce_ms,
    streams: { each: streams.per_user, all: streams.total },
    // It may change while it runs.
    get activePerUser() {
      return runs.active_per_user
    },
    stateCharacters: ofHeap(threads.state_characters, STATE_PART),
    windowBytes: streams.window_bytes,
    pendingBytes: streams.pending_bytes,
    pendingTotalBytes: streams.pending_total_bytes,
    eventBytes: streams.event_bytes,
    settleTimeoutMs: streams.settle_timeout_ms,
    disconnectGraceMs: runs.disconnect_grace_ms,
    timeoutMs: runs.timeout_s * 1000,
    recursionLimit: runs.recursion_limit,
    replyAnswers: runs.reply_answers,
    title
  }
}

/** They may change while it runs. */
export function limitsOf({ threads, crons, webhooks }: Config): StoredLimits {
  return {
    get threads() {
      return threads.per_user
    },
    get bytes() {
      return threads.user_bytes
    },
    get crons() {
      return crons.per_user
    },
    get webhooks() {
      return webhooks.per_user
    }
  }
}

/** Writes after which a thread looks otherwise in a list: its title, its metadata. Whoever removes one says so. */
const CHANGES_THREADS: ReadonlySet<string> = new Set(['thread.create', 'thread.patch', 'state.update', 'graph.update'])

function threadOf(op: object): string {
  const { thread_id, thread } = op as { readonly thread_id?: string; readonly thread?: { readonly thread_id: string } }
  return thread_id ?? thread?.thread_id ?? ''
}

/** A refused write of a request has lost a race, e.g. against the thread's removal: a conflict, not a failure. */
export function mapWriteErrors(
  committer: Committer,
  onThread: (userId: string | null, threadId: string) => void
): ScopedWriter {
  return scopedWriter({
    async write(op) {
      try {
        const result = await committer.write(op, 'limited')
        if (CHANGES_THREADS.has(op.name)) onThread(currentUserId(), threadOf(op))
        return result
      } catch (error) {
        if (error instanceof WriteRefused) throw fail('changed_meanwhile')
        throw error
      }
    }
  })
}

/** Heartbeats from one look at the users of runs to the next. */
const BEATS_A_LOOK = 6

/** Ends the runs of users whose account is gone. */
export function departedUsers({
  config,
  log,
  registry,
  innerCalls
}: {
  readonly config: Config
  readonly log: Log
  readonly registry: Registry
  readonly innerCalls: InnerCalls
}): DepartedUsers {
  return new DepartedUsers({
    everyMs: BEATS_A_LOOK * config.streams.heartbeat_ms,
    runs: () => registry.runs(),
    isGone: async (run) => {
      const caller = callerOfRun(run.user_id, run.kwargs)
      return caller !== null && innerCalls.isGone(caller)
    },
    end: (runId) => registry.ends.cancel(runId, 'interrupt', 'user_gone'),
    log
  })
}

/** Ends the streams that were opened with what counts no more. */
export function endStreams({ streams }: Registry, revocation: Revocation): void {
  const isEnded = ({ credential, userId }: { readonly credential: string | null; readonly userId: string | null }) =>
    'digest' in revocation ? credential === revocation.digest : userId === revocation.userId
  void streams.revalidate((reader) => isHeldBy(reader, isEnded)).catch(warnUnexpected)
}

/** Writes a group; where the store refuses it, somebody else was first. @throws Failure changed_meanwhile */
export function unlessChanged(committer: Committer): Services['writeAll'] {
  return (ops, owner) =>
    committer.writeAll(ops, 'limited', owner).catch((error: unknown) => {
      throw error instanceof WriteRefused ? fail('changed_meanwhile') : error
    })
}
