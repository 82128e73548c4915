// Checkpoints as sent to clients: state and history, with the fields of our own and LangGraph's clients. Values are concatenated
// from stored JSON texts, never parsed.
import { type CheckpointPlace, checkpointView, type TaskFields, withValues } from '../conversation/checkpoint.ts'
import type { CheckpointHead, MessageOrigin, StoredCheckpoint } from '../store/store.ts'
import type { Feedback, Interrupt, JsonObject, Thread } from '../base/types.ts'
import { interruptsOf } from '../conversation/interrupts.ts'
import { idOfText, storedJson } from './state.ts'

type Body = StoredCheckpoint['messageBodies'][number]

/** Internal keys of the runtime; `step` is shown anyway. */
const INTERNAL_KEYS = ['created_at', 'updated_at', 'step', 'source', 'writes', 'parents']

function withoutInternal(metadata: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => !INTERNAL_KEYS.includes(key)))
}

function configOf({ thread_id }: CheckpointHead, checkpoint_id: string | null): CheckpointPlace | null {
  return checkpoint_id === null ? null : { thread_id, checkpoint_ns: '', checkpoint_id }
}

/** The next nodes, and the open questions. */
function tasksOf(head: CheckpointHead, interrupts: readonly Interrupt[]): TaskFields[] {
  const waiting = interrupts.map(({ id, value }) => ({ id, value }))
  return head.next.map((name) => ({ id: taskId(head, name), name, interrupts: waiting }))
}

function taskId(head: CheckpointHead, name: string): string {
  return `${head.checkpoint_id}:${name}`
}

/** The response of GET state, as JSON text. */
export function stateView(stored: StoredCheckpoint): string {
  return withValues(storedJson(stored), headView(stored, interruptsOf(stored)))
}

/** The same without values. */
export function headView(head: CheckpointHead, interrupts: readonly Interrupt[] = []): JsonObject {
  const { thread_id, run_id } = head
  return viewOf(head, interrupts, { ...head.metadata, thread_id, ...(run_id === null ? {} : { run_id }) })
}

function viewOf(head: CheckpointHead, interrupts: readonly Interrupt[], metadata: JsonObject): JsonObject {
  return checkpointView({
    checkpoint: configOf(head, head.checkpoint_id),
    parent: configOf(head, head.parent_checkpoint_id),
    createdAt: head.created_at,
    next: head.next,
    tasks: tasksOf(head, interrupts),
    metadata
  })
}

/** One entry of a history, as JSON text. */
export function historyView(stored: StoredCheckpoint): string {
  const { step } = stored.metadata
  const metadata = withoutInternal(stored.metadata)
  const shown = step === undefined ? metadata : { ...metadata, step }
  return withValues(storedJson(stored), viewOf(stored, interruptsOf(stored), shown))
}

/** Ids of all messages of a page, by the number of their text. */
export function messageIds(page: readonly StoredCheckpoint[]): Map<number, string> {
  const ids = new Map<number, string>()
  for (const { messageBodies } of page)
    for (const { no, json } of messageBodies) if (!ids.has(no)) ids.set(no, idOfText(json))
  return ids
}

/**
 * The checkpoints, with run_id and feedback written into their messages [contract 2.2]. `ids` as `messageIds` returns
 * them; `feedback` by run, null if there is none at all.
 */
export function decorated(
  page: readonly StoredCheckpoint[],
  ids: ReadonlyMap<number, string>,
  origins: ReadonlyMap<string, MessageOrigin>,
  feedback: ReadonlyMap<string, Feedback> | null
): StoredCheckpoint[] {
  // Texts are cached, because most messages occur in every entry of the page.
  const [plain, final] = [new Map<number, Body>(), new Map<number, Body>()]
  const textOf = (body: Body, runId: string, isFinal: boolean): Body => {
    const made = isFinal ? final : plain
    const known = made.get(body.no)
    if (known) return known
    const given = isFinal ? `,"feedback":${JSON.stringify(feedbackView(feedback?.get(runId) ?? null))}` : ''
    const text = { no: body.no, json: `${body.json.slice(0, -1)},"run_id":${JSON.stringify(runId)}${given}}` }
    made.set(body.no, text)
    return text
  }
  return page.map((stored) => {
    const messageBodies = stored.messageBodies.slice()
    const answered = new Set<string>()
    // From the end: the first answer found of a run is its last.
    for (let index = messageBodies.length - 1; index >= 0; index--) {
      const body = messageBodies[index]!
      const origin = origins.get(ids.get(body.no)!)
      if (!origin) continue
      const { run_id, event_type } = origin
      const isFinal = feedback !== null && event_type === 'ai_message' && !answered.has(run_id)
      if (isFinal) answered.add(run_id)
      messageBodies[index] = textOf(body, run_id, isFinal)
    }
    return { ...stored, messageBodies }
  })
}

/** Feedback as shown with a message. */
export function feedbackView(feedback: Feedback | null): JsonObject | null {
  return feedback && { feedback_id: feedback.feedback_id, rating: feedback.rating, comment: feedback.comment }
}

/** A thread as sent to clients; `values` is JSON text, `more` comes on top. */
export function threadView(thread: Thread, values: string, interrupts: JsonObject, more: JsonObject): string {
  const { thread_id, status, created_at, updated_at, metadata } = thread
  return withValues(values, { thread_id, status, created_at, updated_at, metadata, interrupts, ...more })
}

export function waitingIn(stored: StoredCheckpoint): JsonObject {
  const waiting = interruptsOf(stored).map(({ id, value }) => ({ id, value }))
  const [name] = stored.next
  return waiting.length === 0 || name === undefined ? {} : { [taskId(stored, name)]: waiting }
}

/** The record of a legacy thread that has checkpoints and no row [Auth 6]. */
export function legacyThread(stored: StoredCheckpoint): Thread {
  const text = (key: string) => (typeof stored.metadata[key] === 'string' ? stored.metadata[key] : stored.created_at)
  return {
    thread_id: stored.thread_id,
    user_id: null,
    assistant_id: null,
    display_name: null,
    status: 'idle',
    metadata: withoutInternal(stored.metadata),
    created_at: text('created_at'),
    updated_at: text('updated_at')
  }
}
