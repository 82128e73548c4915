// What a run was asked for, read from its record. It was checked when the run was created, which may be a process ago.
import { withoutReserved } from '../reserved.ts'
import { type InputMessage, readMessages } from '../thread/message.ts'
import { isInternal } from '../thread/state.ts'
import { type HumanMessage, type Json, type JsonObject, type Run, isObject } from '../types.ts'

/** The stream modes of the run: what a joiner gets that names none. */
export function modesOf(run: Run): string[] {
  const modes = run.kwargs.stream_mode
  return Array.isArray(modes) ? modes.filter((mode) => typeof mode === 'string') : ['values']
}

/** Where the end of the run is to be told; null: nowhere. */
export function webhookOf({ kwargs }: Pick<Run, 'kwargs'>): string | null {
  return typeof kwargs.webhook === 'string' ? kwargs.webhook : null
}

/** When the run may start, in unix ms: one that was asked for later is made in the future. */
export function startsAt({ kwargs, created_at }: Pick<Run, 'kwargs' | 'created_at'>): number {
  return kwargs.after_seconds === undefined ? 0 : Date.parse(created_at)
}

/** The input as messages and channel values. Ids were given to the messages at creation. */
export function inputOf(run: Run): { messages: InputMessage[]; channels: Record<string, Json> } {
  const { input } = run.kwargs
  if (!isObject(input)) return { messages: [], channels: {} }
  const { messages, ...rest } = input
  const channels = Object.fromEntries(Object.entries(rest).filter(([name]) => !isInternal(name)))
  return { messages: readMessages(messages), channels }
}

/** Whose leaving may end the run: the credential of the request that has created it and stayed open. */
export function isCreator(run: Run, { credential }: { readonly credential: string | null }): boolean {
  return credential !== null && run.kwargs.creator === credential
}

export function lastHuman(messages: readonly InputMessage[]): HumanMessage | null {
  return messages.findLast((message): message is HumanMessage => message.type === 'human') ?? null
}

/** The user's answer to what the run before this one asked. */
export function resumeOf(run: Run): { readonly value: Json } | null {
  const { command } = run.kwargs
  return isObject(command) && command.resume !== undefined ? { value: command.resume } : null
}

/** The checkpoint the run goes on from, when it is not the newest. */
export function baseOf(run: Run): string | null {
  return typeof run.kwargs.checkpoint_id === 'string' ? run.kwargs.checkpoint_id : null
}

/** The graph of the run's assistant; null: it names none. */
export function graphOf(run: Run): string | null {
  return typeof run.kwargs.graph_id === 'string' ? run.kwargs.graph_id : null
}

/** What the caller passed along, without what speaks for a user: that is the run's own. */
export function contextOf(run: Run): JsonObject {
  const { config, context } = run.kwargs
  const part = (value: Json | undefined) => (isObject(value) ? value : {})
  const { configurable, context: configured } = part(config)
  return withoutReserved({ ...part(context), ...part(configurable), ...part(configured) })
}

/** Model calls at most: what the caller asks for, and never more than the operator allows. */
export function recursionLimitOf(run: Run, max: number): number {
  const limit = isObject(run.kwargs.config) ? run.kwargs.config.recursion_limit : undefined
  return typeof limit === 'number' && Number.isInteger(limit) && limit > 0 ? Math.min(limit, max) : max
}
