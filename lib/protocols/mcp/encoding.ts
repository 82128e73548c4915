// Pieces of a run as events of the Model Context Protocol (MCP): progress, a question, and at the end the result of the call.
import type { CallToolResult, Task as McpTask } from '@modelcontextprotocol/client'
import { isInFlight, type JsonObject, type Run } from '../../base/types.ts'
import { stopError } from '../../run/log/frame.ts'
import type { Ended, Piece } from '../pieces.ts'
import type { FramePlace } from '../places.ts'
import { type Form, formOf } from '../form.ts'
import { taskStatus } from '../tasks.ts'
import { eventId, questionId, type StreamOf, streamText } from './ids.ts'

/** Members of `_meta` that are ours. */
const PIECE = 'colloquy/piece'
const USAGE = 'colloquy/usage'
const RELATED_TASK = 'io.modelcontextprotocol/related-task'
/** Pieces of one run: those of the runs of a task are counted on. */
const RUN_PIECES = 1_000_000_000
/** How often a task should be asked for, in ms. */
const POLL_MS = 1_000

/** An event whose data is empty sets the position of its reader, and is no message. */
export function positionEvent(run: string, at: FramePlace | null, stream: StreamOf): Buffer {
  return Buffer.from(`id: ${eventId(run, at, streamText(stream))}\ndata: \n\n`)
}

/** Encodes the pieces of a task for the stream of one request. `first`: ordinal of the task's first run. */
export class McpEncoding {
  readonly #stream: StreamOf
  readonly #about: string
  readonly #first: number
  readonly #answered: ReadonlySet<string>

  constructor(stream: StreamOf, first: number, answered: ReadonlySet<string>) {
    this.#stream = stream
    this.#about = streamText(stream)
    this.#first = first
    this.#answered = answered
  }

  readonly encode = (run: Run, piece: Piece): string => {
    const members = piece.type === 'end' ? this.#end(piece.ended) : this.#progress(run, piece)
    const id = eventId(run.run_id, piece.at, this.#about)
    return members === null
      ? ''
      : `id: ${id}
data: {"jsonrpc":"2.0",${members}}

`
  }

  /** Whether the request is answered with the end of this run. */
  readonly isLast = (run: Run): boolean => {
    const waits = taskStatus(run) === 'input_required' && !this.#stream.isStateless && this.#stream.canAsk
    return !waits && !this.#answered.has(run.run_id)
  }

  /** Members of a message, as JSON. */
  #progress({ ordinal }: Run, piece: Exclude<Piece, { type: 'end' }>): string | null {
    const { token } = this.#stream
    // A question is told by an elicitation or the result.
    if (token === null || piece.type === 'asked') return null
    const progress = (ordinal - this.#first) * RUN_PIECES + piece.count
    const message = piece.type === 'text' ? `"message":${JSON.stringify(piece.text)},` : ''
    const params = `{"progressToken":${JSON.stringify(token)},"progress":${progress},${message}"_meta":{"${PIECE}":${piece.json}}}`
    return `"method":"notifications/progress","params":${params}`
  }

  #end(ended: Ended): string | null {
    const { run } = ended
    // Somebody has answered it: the run that goes on follows.
    if (this.#answered.has(run.run_id)) return null
    if (this.isLast(run))
      return `"id":${JSON.stringify(this.#stream.id)},"result":${JSON.stringify(resultOf(ended, this.#stream))}`
    const params = JSON.stringify(elicitation(formOf(ended.questions)))
    return `"id":${JSON.stringify(questionId(run.run_id))},"method":"elicitation/create","params":${params}`
  }
}

function elicitation({ message, schema }: Form): JsonObject {
  return { mode: 'form', message, requestedSchema: schema }
}

type CallResult = CallToolResult & { readonly resultType?: 'complete' }

/** The result of a call, or what it needs first. */
export function resultOf(ended: Ended, { isStateless, canAsk, task, isOfTask }: StreamOf): object {
  const { run, answer, questions, failure, usage } = ended
  const status = taskStatus(run)
  if (status === 'input_required' && isStateless && canAsk) {
    const inputRequests = { answer: { method: 'elicitation/create', params: elicitation(formOf(questions)) } }
    return { resultType: 'input_required', inputRequests, requestState: run.run_id }
  }
  const isError = status === 'failed' || status === 'cancelled'
  const asked = status === 'input_required' ? formOf(questions).message : null
  const why =
    status === 'cancelled' ? 'The run was cancelled' : (stopError(run)?.message ?? failure ?? 'The run failed')
  const text = isError ? why : (asked ?? answer ?? '')
  const result: CallResult = {
    content: [{ type: 'text', text }],
    structuredContent: { thread_id: run.thread_id, run_id: run.run_id, status, message: answer, question: asked },
    ...(isError && { isError }),
    ...(isStateless && { resultType: 'complete' }),
    _meta: {
      ...(usage && { [USAGE]: usage }),
      ...(isOfTask && { [RELATED_TASK]: { taskId: task } })
    }
  }
  return result
}

/** A task as its client polls it. It is kept as long as its thread: `ttl` is null, which is without end. */
export function taskView(id: string, first: Run, last: Run): McpTask {
  const { error } = last
  return {
    taskId: id,
    status: taskStatus(last),
    ttl: null,
    createdAt: first.created_at,
    lastUpdatedAt: last.updated_at,
    ...(isInFlight(last) && { pollInterval: POLL_MS }),
    ...(error !== null && { statusMessage: error })
  }
}
