// A run's parameters, read from its record. They were validated when the run was created, maybe by an earlier process.
import { randomUUID } from 'node:crypto'
import type { AgentInput } from '../agent/runtime.ts'
import { objectsIn } from '../base/json.ts'
import { withoutReserved } from '../base/reserved.ts'
import { type InputMessage, readMessages } from '../conversation/message.ts'
import type { Op } from '../store/store.ts'
import { isInternal } from '../thread/state.ts'
import { type Filter, filterOf } from './log/filter.ts'
import type { StateInput } from './run-state.ts'
import {
  type HumanMessage,
  type Json,
  type JsonObject,
  type Run,
  timestamp,
  isDelayed,
  isObject
} from '../base/types.ts'

/** LangChain's events, as a stream mode. */
const EVENTS = 'events'

/** The run's stream modes: the default for joiners that name none. */
export function modesOf(run: Run): string[] {
  const modes = run.kwargs.stream_mode
  return Array.isArray(modes) ? modes.filter((mode) => typeof mode === 'string') : ['values']
}

/**
 * What a reader that names these modes is shown of the run; null: the run's own. `events` count where the run logs them: elsewhere clients
 * name them as well, and are shown as if they had not [design 5].
 */
export function filterFor(run: Run, modes: readonly string[] | null): Filter {
  const own = modesOf(run)
  return filterOf(servedModes(modes ?? own, own.includes(EVENTS)))
}

/** The modes that count of those asked for. */
export function servedModes(asked: readonly string[], hasEvents: boolean): readonly string[] {
  return hasEvents || !asked.includes(EVENTS) ? asked : asked.filter((mode) => mode !== EVENTS)
}

/** Webhook URL; null: none. */
export function webhookOf({ kwargs }: Pick<Run, 'kwargs'>): string | null {
  return typeof kwargs.webhook === 'string' ? kwargs.webhook : null
}

/** Of versions that did not keep it in the run, in ms. */
const GRACE_MS = 60_000

/** How long the thread that was made for it outlives it, in ms; null: it stays. */
export function graceOf({ kwargs: { temporary } }: Pick<Run, 'kwargs'>): number | null {
  return typeof temporary === 'number' ? temporary : temporary === true ? GRACE_MS : null
}

/** Keys for which its creator wants to know where feedback is put. */
export function feedbackKeysOf({ kwargs }: Pick<Run, 'kwargs'>): string[] {
  const keys = kwargs.feedback_keys
  return Array.isArray(keys) ? keys.filter((key) => typeof key === 'string') : []
}

/** Earliest start of the run, in Unix ms: in the future for a delayed run. */
export function startsAt({ kwargs, created_at }: Pick<Run, 'kwargs' | 'created_at'>): number {
  return kwargs.after_seconds === undefined ? 0 : Date.parse(created_at)
}

/** The input as messages and channel values. Message ids were assigned at creation. */
export function inputOf(run: Run): { messages: InputMessage[]; channels: Record<string, Json> } {
  const { input } = run.kwargs
  if (!isObject(input)) return { messages: [], channels: {} }
  const { messages, ...rest } = input
  const channels = Object.fromEntries(Object.entries(rest).filter(([name]) => !isInternal(name)))
  return { messages: readMessages(messages, randomUUID), channels }
}

export function lastHuman(messages: readonly InputMessage[]): HumanMessage | null {
  return messages.findLast((message): message is HumanMessage => message.type === 'human') ?? null
}

/** The user's answer to the previous run's question. */
export function resumeOf(run: Run): { readonly value: Json } | null {
  const { command } = run.kwargs
  return isObject(command) && command.resume !== undefined ? { value: command.resume } : null
}

/** The run whose answer it continues; null: none. */
function continuedBy({ kwargs }: Run): string | null {
  const { continue_from } = kwargs
  return isObject(continue_from) && typeof continue_from.run_id === 'string' ? continue_from.run_id : null
}

/** It asks a question of the conversation in other words: unless it succeeds, the conversation stays as it was before. */
export function isEdit({ metadata }: Pick<Run, 'metadata'>): boolean {
  return metadata.replay_kind === 'edit'
}

/** The checkpoint the run starts from, when it is not the newest. */
export function baseOf(run: Run): string | null {
  return typeof run.kwargs.checkpoint_id === 'string' ? run.kwargs.checkpoint_id : null
}

/** The messages that a run was asked with. */
export function askedMessages({ kwargs: { input = null } }: Run): JsonObject[] {
  return isObject(input) ? objectsIn(input.messages) : []
}

/** The graph of the run's assistant; null: none. */
export function graphOf({ kwargs }: Run): string | null {
  return typeof kwargs.graph_id === 'string' ? kwargs.graph_id : null
}

/** Where something is configured: `context` gives way to the config, and in that `configurable` to its own `context` [contract 3.1]. */
export function configuredParts({ config, context }: JsonObject): JsonObject[] {
  const { configurable, context: configured } = isObject(config) ? config : {}
  return [context, configurable, configured].filter(isObject)
}

/** What is configured, without the keys that speak for a user, which the run sets itself. */
function contextOf(kwargs: JsonObject): JsonObject {
  return withoutReserved(...configuredParts(kwargs))
}

/** Limit of model calls: the caller's, capped by the operator's. */
function recursionLimitOf(run: Run, max: number): number {
  const limit = isObject(run.kwargs.config) ? run.kwargs.config.recursion_limit : undefined
  return typeof limit === 'number' && Number.isInteger(limit) && limit > 0 ? Math.min(limit, max) : max
}

/** The op by which an attempt at the run is counted, from 1. */
export function startOf(run: Run, attempt: number): Op {
  const { run_id, thread_id } = run
  return { name: 'run.start', run_id, thread_id, now: timestamp(), attempt, isLater: isDelayed(run) }
}

/** What else the input of an agent is made of. */
interface InputParts {
  readonly run: Run
  readonly log: { readonly attempts: number }
  readonly journal: Pick<AgentInput, 'recordedIds'>
  readonly state: { input(): StateInput }
}

/** What the agent of a run is given. @param recursionLimit the operator's */
export function agentInput({ run, log, journal, state }: InputParts, recursionLimit: number): AgentInput {
  return {
    ...state.input(),
    threadId: run.thread_id,
    runId: run.run_id,
    userId: run.user_id,
    assistantId: run.assistant_id ?? 'lead_agent',
    resume: resumeOf(run),
    continues: continuedBy(run),
    context: contextOf(run.kwargs),
    modelName: run.model_name,
    recursionLimit: recursionLimitOf(run, recursionLimit),
    graphId: graphOf(run),
    request: { ...run.kwargs, metadata: run.metadata },
    attempt: log.attempts,
    recordedIds: journal.recordedIds
  }
}
