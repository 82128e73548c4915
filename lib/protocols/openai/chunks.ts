// A run as chunks of a chat completion. Tools of the server are not shown: clients would run them.
import { clientToolNames } from '../../agent/client-context.ts'
import type { JsonObject, Run } from '../../base/types.ts'
import type { Encoding, Selection, Translation } from '../feed.ts'
import { JsonText } from '../json-text.ts'
import { PART_FILTER } from '../parts.ts'
import { type Ended, type Piece, type PieceState, pieces } from '../pieces.ts'
import { formOf } from '../form.ts'
import { asks } from '../tasks.ts'
import { bare } from './ids.ts'
import { countsOf, endOf, keptOf, seconds } from './response.ts'

/** What a chunk adds; the last one has how it ended. */
export interface CompletionChunk {
  readonly json: JsonText
  readonly delta: JsonObject
  readonly finish: string | null
  readonly error: string | null
  readonly usage: JsonObject | null
}

interface CompletionState {
  readonly told: PieceState
  /** The message whose text was last: another one begins a paragraph. */
  readonly message: string | null
  readonly calls: number
  readonly question: string | null
}

/** Between the texts of two messages. */
const BETWEEN = '\n\n'

export const completions: Translation<CompletionState, CompletionChunk> = {
  initial: { told: pieces.initial, message: null, calls: 0, question: null },

  frame(run, before, frame, values) {
    const { state: told, events: said } = pieces.frame(run, before.told, frame, values)
    return chunksOf(run, { ...before, told }, said)
  },

  end(run, state, at) {
    return chunksOf(run, state, pieces.end(run, state.told, at)).events
  }
}

function chunksOf(run: Run, before: CompletionState, said: readonly Piece[]) {
  let state = before
  const events: CompletionChunk[] = []
  for (const piece of said) {
    if (piece.type === 'end') events.push(...lastChunks(run, state, piece.ended))
    const step = chunkOf(run, state, piece)
    state = step.state
    if (step.delta) events.push(chunk(run, step.delta))
  }
  return { state, events }
}

interface Step {
  readonly state: CompletionState
  readonly delta?: JsonObject
}

function chunkOf(run: Run, state: CompletionState, piece: Piece): Step {
  switch (piece.type) {
    case 'begun':
      return { state, delta: { role: 'assistant', content: '' } }
    case 'text': {
      const gap = state.message !== null && state.message !== piece.message ? BETWEEN : ''
      return { state: { ...state, message: piece.message }, delta: { content: gap + piece.text } }
    }
    case 'reasoning':
      return { state, delta: { reasoning_content: piece.text } }
    case 'call':
      return calling(run, state, piece)
    case 'asked':
      return { state: { ...state, question: piece.text } }
    default:
      return { state }
  }
}

function calling(run: Run, state: CompletionState, { id, name, args }: Piece & { type: 'call' }): Step {
  if (!clientToolNames(run.kwargs).includes(name)) return { state }
  const call = { index: state.calls, id, type: 'function', function: { name, arguments: JSON.stringify(args) } }
  return { state: { ...state, calls: state.calls + 1 }, delta: { tool_calls: [call] } }
}

/** What the agent asks is the answer, where there is no call for the client. */
function lastChunks(run: Run, state: CompletionState, ended: Ended): CompletionChunk[] {
  const { status, error = null } = endOf(ended.run, ended.failure)
  if (status === 'failed') return [{ ...chunk(run, {}), json: failureOf(error), error }]
  const isAsking = asks(ended.run) && state.calls === 0
  const gap = state.message === null ? '' : BETWEEN
  const question = { content: gap + (state.question ?? formOf(ended.questions).message) }
  const isCut = status === 'incomplete' || status === 'cancelled'
  const finish = isCut ? 'length' : state.calls > 0 ? 'tool_calls' : 'stop'
  const usage = ended.usage && completionUsage(ended.usage)
  return [...(isAsking ? [chunk(run, question)] : []), chunk(run, {}, finish, usage)]
}

function failureOf(message: string | null): JsonText {
  const error = { message: message ?? 'The run failed', type: 'server_error', param: null, code: null }
  return new JsonText({ error })
}

function chunk(
  run: Run,
  delta: JsonObject,
  finish: string | null = null,
  usage: JsonObject | null = null
): CompletionChunk {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }]
  return {
    json: new JsonText({ ...headOf(run, 'chat.completion.chunk'), choices }),
    delta,
    finish,
    usage,
    error: null
  }
}

export function headOf(run: Run, object: string): JsonObject {
  const { model } = keptOf(run)
  return { id: `chatcmpl-${bare(run.run_id)}`, object, created: seconds(run.created_at), model: model ?? 'lead_agent' }
}

function completionUsage(usage: JsonObject): JsonObject {
  const { input, output, total, cached, reasoning } = countsOf(usage)
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: total,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning }
  }
}

export const allChunks: Selection<CompletionChunk> = {
  filter: PART_FILTER,
  withValues: false,
  takes: () => true,
  key: ''
}

export const DONE = Buffer.from('data: [DONE]\n\n')

/** As server-sent events. */
export const chunkEvents: Encoding<CompletionChunk> = {
  bytes: (chunks) => Buffer.from(chunks.map(({ json }) => `data: ${json}\n\n`).join(''))
}

/** The same with the usage as a chunk of its own, for who asks for it. */
export const chunkEventsWithUsage: Encoding<CompletionChunk> = {
  bytes: (chunks) => Buffer.from(chunks.map(withUsage).join(''))
}

function withUsage({ json, finish, usage }: CompletionChunk): string {
  const told = `data: ${json}\n\n`
  if (finish === null) return told
  // Of the same response, by its head.
  const { choices: _, ...head } = JSON.parse(String(json)) as JsonObject
  return `${told}data: ${JSON.stringify({ ...head, choices: [], usage: usage ?? completionUsage({}) })}\n\n`
}
