// Interrupts: questions with which a run has ended. The thread waits for its user until a run with `command.resume` continues.
// They are a channel of the state, shown to clients as tasks and interrupts, and in streams as `__interrupt__`.
import { objectsIn, textOr } from '../base/json.ts'
import type { Interrupt, Json, Message, ToolCall } from '../base/types.ts'
import type { StoredGraphCheckpoint } from './state.ts'

/** The member of a state, an update or a frame that has them. */
export const INTERRUPTS = '__interrupt__'

/** Interrupts in a list, of a state, a frame or a LangGraph server, whose versions differ in the name of the id. */
export function interruptsIn(given: Json | undefined): Interrupt[] {
  return objectsIn(given).flatMap(({ id, interrupt_id, value }) => {
    const name = textOr(id) ?? textOr(interrupt_id)
    return name === null ? [] : [{ id: name, value: value ?? null }]
  })
}

/** Channels in which a task asks, is answered, or fails: what it writes to others is its result. */
const OF_QUESTIONS = [INTERRUPTS, '__resume__', '__error__', '__scheduled__']

/**
 * Ids of tasks of a graph's checkpoint that have a result. One that was answered beside another that waits keeps its question; LangGraph's
 * snapshot of one that was answered and asks again looks like that of one that is done.
 */
export function doneIn({ writes }: Pick<StoredGraphCheckpoint, 'writes'>): ReadonlySet<string> {
  return new Set(writes.filter(({ channel }) => !OF_QUESTIONS.includes(channel)).map(({ task_id }) => task_id))
}

/** Those of a stored state. */
export function interruptsOf(stored: {
  readonly channelBodies: readonly { readonly name: string; readonly json: string }[]
}): Interrupt[] {
  const body = stored.channelBodies.find(({ name }) => name === INTERRUPTS)
  // Bodies are only ever made from JSON.
  return body ? interruptsIn(JSON.parse(body.json) as Json) : []
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
