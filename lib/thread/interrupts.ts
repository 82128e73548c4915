// Interrupts: questions with which a run has ended. The thread waits for its user until a run with `command.resume` continues.
// They are a channel of the state, shown to clients as tasks and interrupts, and in streams as `__interrupt__`.
import type { StoredCheckpoint } from '../store/store.ts'
import { type Interrupt, type Json, type Message, type ToolCall, isObject } from '../base/types.ts'

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

/** An open tool call. `asked`: id of the question message in place of its result. */
export interface OpenCall {
  readonly call: ToolCall
  readonly asked: string | null
}

/** Open tool calls of the last answer; a call that interrupted stays open until it is answered. */
export function openCallsIn(messages: readonly Message[], interrupts: readonly Interrupt[] = []): OpenCall[] {
  const at = messages.findLastIndex(({ type }) => type === 'ai')
  const last = messages[at]
  if (last?.type !== 'ai') return []
  const results = new Map(
    messages.slice(at).flatMap((one) => (one.type === 'tool' ? [[one.tool_call_id, one.id]] : []))
  )
  return last.tool_calls.flatMap((call) => {
    const result = results.get(call.id)
    if (result === undefined) return { call, asked: null }
    return interrupts.some(({ id }) => id === call.id) ? { call, asked: result } : []
  })
}
