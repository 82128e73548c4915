// Tasks and their pieces in the words of Agent2Agent (A2A): a task as it stands, and what is added to it.
import type { Json, JsonObject, Run } from '../../base/types.ts'
import { base64In, fileOf, type Part, partsOf } from '../../conversation/content.ts'
import { stopError } from '../../run/log/frame.ts'
import { askedMessages } from '../../run/run-kwargs.ts'
import type { Ended, Piece } from '../pieces.ts'
import { formOf } from '../form.ts'
import { type Task, type TaskStatus, taskStatus } from '../tasks.ts'

const STATES: Readonly<Record<TaskStatus, string>> = {
  working: 'TASK_STATE_WORKING',
  input_required: 'TASK_STATE_INPUT_REQUIRED',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  cancelled: 'TASK_STATE_CANCELED'
}

const SUBMITTED = 'TASK_STATE_SUBMITTED'

/** All that a task of ours is ever in, and those of the protocol that none of ours is. */
export const TASK_STATES: readonly string[] = [
  SUBMITTED,
  ...Object.values(STATES),
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED'
]

/** Of a run's metadata: what its client calls the context. */
export const CONTEXT = 'a2a_context'

export function contextOf({ metadata, thread_id }: Run): string {
  const named = metadata[CONTEXT]
  return typeof named === 'string' ? named : thread_id
}

export function stateOf(run: Run): string {
  return run.status === 'pending' ? SUBMITTED : STATES[taskStatus(run)]
}

/** Which artifact a piece adds to: one of each message for its texts, and one of each other thing for those who show it. */
interface Addition {
  readonly artifactId: string
  readonly name: string
  readonly part: JsonObject
}

function additionOf(piece: Piece): Addition | null {
  switch (piece.type) {
    case 'text':
      return { artifactId: piece.message, name: 'answer', part: { text: piece.text, mediaType: 'text/plain' } }
    case 'reasoning':
      return { artifactId: `${piece.message}/reasoning`, name: 'reasoning', part: dataPart(piece) }
    case 'call':
      return { artifactId: `${piece.id}/call`, name: 'tool_call', part: dataPart(piece) }
    case 'result':
      return { artifactId: `${piece.id}/result`, name: 'tool_result', part: dataPart(piece) }
    default:
      return null
  }
}

function dataPart({ json }: Piece): JsonObject {
  // A piece's JSON is that of an object.
  return { data: JSON.parse(String(json)) as Json, mediaType: 'application/json' }
}

/** The status behind a run, with what it asks or why it failed. */
function statusOf(run: Run, ended: Ended | null): JsonObject {
  const state = stateOf(run)
  const timestamp = run.updated_at
  const status = taskStatus(run)
  const agentMessage = (parts: JsonObject[]): JsonObject => ({
    message: { messageId: `${run.run_id}/${status}`, contextId: contextOf(run), role: 'ROLE_AGENT', parts }
  })
  if (status === 'input_required') {
    const questions = ended?.questions ?? []
    const data = { interrupts: questions.map(({ id, value }) => ({ id, value })) }
    return {
      state,
      timestamp,
      ...agentMessage([{ text: formOf(questions).message }, { data, mediaType: 'application/json' }])
    }
  }
  if (status !== 'failed') return { state, timestamp }
  return {
    state,
    timestamp,
    ...agentMessage([{ text: stopError(run)?.message ?? ended?.failure ?? 'The run failed' }])
  }
}

/** A piece as one event of a stream; null: nothing of it is told. */
export function eventOf(taskId: string, run: Run, piece: Piece): JsonObject | null {
  const of = { taskId, contextId: contextOf(run) }
  if (piece.type === 'begun')
    return { statusUpdate: { ...of, status: { state: STATES.working, timestamp: run.updated_at } } }
  if (piece.type === 'end') {
    const { ended } = piece
    const metadata = ended.usage && { metadata: { usage: ended.usage } }
    return { statusUpdate: { ...of, status: statusOf({ ...run, ...ended.run }, ended), ...metadata } }
  }
  const added = additionOf(piece)
  if (!added) return null
  const { artifactId, name, part } = added
  const append = 'isFirst' in piece && !piece.isFirst
  return { artifactUpdate: { ...of, artifact: { artifactId, name, parts: [part] }, append, lastChunk: false } }
}

interface Shown {
  /** Messages of its history; undefined: all. */
  readonly historyLength?: number | undefined
  /** Pieces of its runs; null: without artifacts. */
  readonly pieces: readonly Piece[] | null
}

/** A task as it stands behind these pieces. */
export function taskView({ first, last }: Task, runs: readonly Run[], { historyLength, pieces }: Shown): JsonObject {
  const end = pieces?.at(-1)
  const ended = end?.type === 'end' ? end.ended : null
  const run = ended ? { ...last, ...ended.run } : last
  const all = runs.flatMap((one) => messagesOf(one, first.run_id))
  const history = historyLength === undefined ? all : historyLength > 0 ? all.slice(-historyLength) : []
  return {
    id: first.run_id,
    contextId: contextOf(first),
    status: statusOf(run, ended),
    ...(pieces && { artifacts: artifactsOf(pieces) }),
    history,
    metadata: { thread_id: first.thread_id, run_id: last.run_id, ...(ended?.usage && { usage: ended.usage }) }
  }
}

function artifactsOf(pieces: readonly Piece[]): JsonObject[] {
  const all = new Map<string, { readonly name: string; readonly texts: string[]; readonly parts: JsonObject[] }>()
  for (const piece of pieces) {
    const added = additionOf(piece)
    if (!added) continue
    const { artifactId, name, part } = added
    const known = all.get(artifactId) ?? { name, texts: [], parts: [] }
    all.set(artifactId, known)
    if (piece.type === 'text') known.texts.push(piece.text)
    else known.parts.push(part)
  }
  return [...all].map(([artifactId, { name, texts, parts }]) => {
    const text = texts.length > 0 ? [{ text: texts.join(''), mediaType: 'text/plain' }] : []
    return { artifactId, name, parts: [...text, ...parts] }
  })
}

/** What its user has said to a run. */
function messagesOf(run: Run, taskId: string): JsonObject[] {
  const { run_id, metadata } = run
  const named = metadata.a2a_message
  return askedMessages(run).map(({ content }, at) => ({
    messageId: typeof named === 'string' && at === 0 ? named : `${run_id}/${at}`,
    contextId: contextOf(run),
    taskId,
    role: 'ROLE_USER',
    parts: partsOf({ content: content ?? '' }).flatMap(partView)
  }))
}

function partView(part: Part): JsonObject[] {
  if (part.type !== 'media') return [{ text: part.text }]
  const file = fileOf(part.content)
  if (!file) return []
  const { url, mediaType } = file
  const raw = base64In(url)
  return [{ ...(raw === null ? { url } : { raw }), mediaType }]
}
