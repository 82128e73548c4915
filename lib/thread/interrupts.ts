// Questions that a run has ended with: the thread waits for its user, and a later run with `command.resume` goes on from there.
// They are a channel of the state that clients see as tasks and interrupts, and in streams under its own name.
import type { StoredCheckpoint } from '../store/store.ts'
import { type Interrupt, type Json, type Message, type ToolCall, isObject } from '../types.ts'

export const INTERRUPTS = '__interrupt__'

export function interruptsIn(channel: Json | undefined): Interrupt[] {
  return Array.isArray(channel) ? channel.flatMap(readInterrupt) : []
}

export function interruptsOf(stored: Pick<StoredCheckpoint, 'channelBodies'>): Interrupt[] {
  const body = stored.channelBodies.find(({ name }) => name === INTERRUPTS)
  // Bodies are only ever made from JSON.
  return body ? interruptsIn(JSON.parse(body.json) as Json) : []
}

function readInterrupt(item: Json): Interrupt[] {
  return isObject(item) && typeof item.id === 'string' ? [{ id: item.id, value: item.value ?? null }] : []
}

/** Calls of the last answer that have no result: what asks its user has none before that has answered. */
export function openCallsIn(messages: readonly Message[]): ToolCall[] {
  const at = messages.findLastIndex(({ type }) => type === 'ai')
  const last = messages[at]
  if (last?.type !== 'ai') return []
  const done = new Set(messages.slice(at).flatMap((one) => (one.type === 'tool' ? [one.tool_call_id] : [])))
  return last.tool_calls.filter(({ id }) => !done.has(id))
}
