// A turn of a conversation: a human message and the answer to it, with the checkpoint before it and the run that gave the answer.
import type { StatePort } from '../agent/states.ts'
import { Refused } from '../base/errors.ts'
import { isObject, type Json, type JsonObject } from '../base/types.ts'

/** Checkpoints that are searched for the state before a turn. */
const ENTRIES_MAX = 200

/** One checkpoint of a thread, newest first in a history. */
export interface Entry {
  readonly checkpointId: string
  readonly messages: readonly JsonObject[]
  readonly title: Json | undefined
  readonly goal: Json | undefined
  /** The run that has written it; null: none. */
  readonly runId: string | null
}

export interface Turn {
  readonly human: JsonObject & { readonly id: string }
  /** All messages of the turn, the human's first. */
  readonly messages: readonly JsonObject[]
  /** The run that gave the answer. */
  readonly runId: string
  /** The checkpoint the turn started from. */
  readonly base: Entry
}

/** States of a thread, newest first; the messages bear the run they are of as `run_id`. */
export async function entriesOf(
  states: StatePort,
  threadId: string,
  user: string,
  limit = ENTRIES_MAX
): Promise<Entry[]> {
  const query = { limit, before: null, place: null, metadata: null, user }
  return (await states.history(threadId, query)).flatMap((text) => entryIn(JSON.parse(text) as Json))
}

/** @throws Refused 404 when nothing was written to the thread */
export async function historyOf(states: StatePort, threadId: string, user: string): Promise<[Entry, ...Entry[]]> {
  const [newest, ...older] = await entriesOf(states, threadId, user)
  if (!newest) throw new Refused(404, `Thread ${threadId} has no checkpoint`)
  return [newest, ...older]
}

function entryIn(state: Json): Entry[] {
  if (!isObject(state) || !isObject(state.checkpoint) || typeof state.checkpoint.checkpoint_id !== 'string') return []
  const values = isObject(state.values) ? state.values : {}
  const messages = Array.isArray(values.messages) ? values.messages.filter(isObject) : []
  const run = isObject(state.metadata) ? state.metadata.run_id : null
  return [
    {
      ...{ checkpointId: state.checkpoint.checkpoint_id, messages, title: values.title, goal: values.goal },
      runId: typeof run === 'string' ? run : null
    }
  ]
}

/** The run that a message of the newest state is of. Those of a graph bear none: it is that of the first state with it. */
export function runOf(history: readonly [Entry, ...Entry[]], message: JsonObject | undefined): string | null {
  if (!message) return null
  if (typeof message.run_id === 'string') return message.run_id
  return history.findLast(({ messages }) => messages.some(({ id }) => id === message.id))?.runId ?? null
}

/** Frontends show it: middlewares hide what they add to a conversation. */
function isVisible({ additional_kwargs }: JsonObject): boolean {
  return !isObject(additional_kwargs) || additional_kwargs.hide_from_ui !== true
}

export function isAnswer(message: JsonObject): boolean {
  return message.type === 'ai' && isVisible(message)
}

export function isQuestion(message: JsonObject): boolean {
  return message.type === 'human' && isVisible(message)
}

/** What an answer is one to. */
interface Asked {
  readonly human: JsonObject & { readonly id: string }
  /** Index of the human message. */
  readonly start: number
  readonly runId: string
}

/**
 * What was asked before the message at this index of the newest state.
 * @throws Refused 409 when it has no human message, or no run
 */
export function askedBefore(history: readonly [Entry, ...Entry[]], index: number): Asked {
  const { messages } = history[0]
  const start = messages.slice(0, index + 1).findLastIndex(isQuestion)
  const human = messages[start]
  if (!human || typeof human.id !== 'string') throw new Refused(409, 'No human message stands before this answer')
  const runId = runOf(history, messages[index])
  if (runId === null) throw new Refused(409, 'The run of this answer is not known')
  return { human: { ...human, id: human.id }, start, runId }
}

/**
 * The turn that ends with the message at this index of the newest state.
 * @throws Refused 409 when it has no human message, no run, or no checkpoint before it
 */
export function turnAt(history: readonly [Entry, ...Entry[]], index: number): Turn {
  const { human, start, runId } = askedBefore(history, index)
  const base = baseBefore(history, start)
  if (!base) throw new Refused(409, 'There is no checkpoint before this turn to start from')
  return { human, messages: history[0].messages.slice(start, index + 1), runId, base }
}

/** The state before the message at this index of the newest one; undefined: there is none among these. */
function baseBefore(history: readonly Entry[], index: number): Entry | undefined {
  const before = (history[0]?.messages ?? []).slice(0, index)
  return history.find(
    (entry) => entry.messages.length === before.length && before.every(({ id }, at) => entry.messages[at]?.id === id)
  )
}

/**
 * The body of a run that asks again: these messages, in place of the one at this index of the newest state and of all behind it.
 * @throws Refused 409 when no state is before it
 */
export function askedFrom(history: readonly Entry[], index: number, messages: JsonObject[]): JsonObject {
  const base = baseBefore(history, index)
  if (!base) throw new Refused(409, 'There is no state before this question to start from')
  return { input: { messages }, checkpoint_id: base.checkpointId }
}
