// Computes a graph's input so that its state matches ours. Our state is authoritative: edits, rollbacks, cancels and
// messages from other processes are missing in the graph's, and whatever the graph has beyond ours is removed.
import { isDeepStrictEqual } from 'node:util'
import type { Json, JsonObject, Message, ToolCall } from '../../base/types.ts'
import { AgentError, type AgentInput } from '../../agent/runtime.ts'
import type { GraphInput, GraphState } from './graph.ts'
import type { ServerThread } from './server-thread.ts'
import { REF_CHANNEL, type GraphCheckpointRef } from './checkpoint-ref.ts'
import { readMessage, isSameMessage } from '../graph/message.ts'

/** The checkpoint a graph starts from. */
interface Start {
  /** null: the graph does not know the thread. */
  readonly state: GraphState | null
  /** null: the newest checkpoint. */
  readonly checkpointId: string | null
}

/** @throws AgentError NothingToResume */
export async function graphInputFor(
  input: AgentInput,
  ref: GraphCheckpointRef,
  thread: ServerThread
): Promise<GraphInput> {
  const { state, checkpointId } = await positionOf(ref, thread)
  if (!input.resume) return { input: differences(input, state), resume: null, checkpointId }
  if (input.interrupts.length === 0 || !state)
    throw new AgentError('NothingToResume', 'No question waits for an answer in this thread')
  // A breakpoint needs no answer: any value continues.
  return { input: null, resume: state.interrupts.length === 0 ? null : input.resume, checkpointId }
}

async function positionOf(ref: GraphCheckpointRef, thread: ServerThread): Promise<Start> {
  const newest = await thread.state(null)
  // After an interrupted run of unknown progress, the newest checkpoint is used.
  const isOurs = ref.checkpointId === newest?.checkpointId || (ref.runId !== null && ref.runId === newest?.runId)
  if (isOurs || ref.checkpointId === null) return { state: newest, checkpointId: null }
  const old = await thread.state(ref.checkpointId)
  // If the graph has lost the checkpoint, it gets everything that is missing.
  return old ? { state: old, checkpointId: ref.checkpointId } : { state: newest, checkpointId: null }
}

/** Whether a state of ours says what one of the graph's says. */
export function isSameState(ours: Pick<AgentInput, 'messages' | 'channels'>, theirs: GraphState | null): boolean {
  return theirs !== null && differences(ours, theirs) === null
}

/** Updates for the graph's state; null: none. */
function differences(
  { messages, channels }: Pick<AgentInput, 'messages' | 'channels'>,
  state: GraphState | null
): JsonObject | null {
  const values = state?.values ?? {}
  const changed = Object.entries(channels).filter(
    ([name, value]) => isGraphs(name, values) && !isDeepStrictEqual(value, values[name])
  )
  const corrections = correctionsOf(messages, messagesIn(values))
  if (state && changed.length === 0 && corrections.length === 0) return null
  // A graph without a state needs `messages`, even if empty.
  return { ...Object.fromEntries(changed), ...((corrections.length > 0 || !state) && { messages: corrections }) }
}

/** Not our own reference, and not the title unless the graph has that channel. */
function isGraphs(channel: string, values: JsonObject): boolean {
  return channel !== REF_CHANNEL && (channel !== 'title' || Object.hasOwn(values, channel))
}

/** Messages to add, replace and remove, so that the graph's reducer turns its list into ours. */
function correctionsOf(ours: readonly Message[], theirs: readonly Message[]): Json[] {
  let same = 0
  while (same < theirs.length && theirs[same]?.id === ours[same]?.id) same++
  const rest = theirs.slice(same)
  const changed = ours.slice(0, same).filter((message, i) => !isSameMessage(message, theirs[i]!))
  const added = ours.slice(same)
  const known = new Set(added.map(({ id }) => id))
  // Messages cannot be reordered: everything is rewritten.
  const isMixed = rest.some(({ id }) => known.has(id))
  if (isMixed) return [removal('__remove_all__'), ...ours.map(written)]
  return [...rest.map(({ id }) => removal(id)), ...[...changed, ...added].map(written)]
}

function messagesIn({ messages }: JsonObject): Message[] {
  let unnamed = 0
  const spareId = () => `unnamed-${unnamed++}`
  return Array.isArray(messages) ? messages.flatMap((one) => readMessage(one, spareId) ?? []) : []
}

function removal(id: string): Json {
  return { type: 'remove', id, content: '' }
}

/** A message as graphs expect it. Empty members are left out, because some runtimes would keep them. */
function written(message: Message): Json {
  const { type, id, content, name, additional_kwargs, response_metadata } = message
  return {
    type,
    id,
    content,
    ...(name !== null && { name }),
    ...(hasMembers(additional_kwargs) && { additional_kwargs }),
    ...(hasMembers(response_metadata) && { response_metadata }),
    ...(message.type === 'ai' && message.tool_calls.length > 0 && { tool_calls: message.tool_calls.map(toJson) }),
    ...(message.type === 'tool' && { tool_call_id: message.tool_call_id, status: message.status }),
    ...(message.type === 'tool' && message.artifact !== null && { artifact: message.artifact })
  }
}

function toJson({ name, args, id, type }: ToolCall): Json {
  return { name, args, id, type }
}

function hasMembers(object: JsonObject): boolean {
  return Object.keys(object).length > 0
}
