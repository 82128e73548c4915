// Defines an agent as a generator function that yields its answer piece by piece.
import { randomUUID } from 'node:crypto'
import { unlessAborted } from '../base/waiting.ts'
import { checkedModels, described } from './check.ts'
import type { AiMessage } from '../base/types.ts'
import { toMessage } from './chat.ts'
import {
  type Agent,
  AgentError,
  type AgentInput,
  type AgentRecord,
  type HalfAnswer,
  type ListedAgent,
  type Sink,
  type StreamPart
} from './runtime.ts'

/** A string is a piece of the answer, `reasoning` a piece of its reasoning; anything else is passed to the run unchanged. */
export type Yielded = string | { readonly reasoning: string } | StreamPart | AgentRecord

/** Yields its answer, and stops when the signal aborts. An exception fails the run. */
export type AgentWork = (input: AgentInput, signal: AbortSignal) => AsyncIterable<Yielded> | Iterable<Yielded>

export interface AgentDefinition {
  /** The name of its model in GET /api/models and in messages. */
  readonly name?: string
  readonly forget?: Agent['forget']
  /** Under `runs.on_restart: resume` it is called again: it finds what it has said in `input.earlier`, and yields what follows. */
  readonly canResume?: boolean
}

/** `defineAgent(async function* (input, signal) { yield 'hi' })` */
export function defineAgent(
  work: AgentWork,
  { name = 'agent', forget, canResume = false }: AgentDefinition = {}
): ListedAgent {
  const models = checkedModels([{ name, model: name }])
  return {
    start: (input, sink, signal) => tell(work(input, signal), new Answer(sink, name, input.earlier?.half), signal),
    models: () => models,
    ...(canResume && { canResume }),
    ...(forget && { forget })
  }
}

async function tell(yielded: ReturnType<AgentWork>, answer: Answer, signal: AbortSignal): Promise<void> {
  const pieces = iteratorOf(yielded)
  try {
    for (;;) {
      // A generator that ignores its signal must not delay a cancel.
      const next = await unlessAborted(Promise.resolve(pieces.next()), signal)
      if (next.done) break
      await answer.add(next.value)
    }
    await answer.close()
  } catch (error) {
    // Failing because of the abort is no failure.
    if (!signal.aborted) throw error
    // Errors while it finishes are ignored.
    void Promise.resolve(pieces.return?.()).catch(() => {})
  }
}

function iteratorOf(yielded: unknown): AsyncIterator<Yielded> | Iterator<Yielded> {
  if (typeof yielded === 'object' && yielded !== null) {
    if (Symbol.asyncIterator in yielded) return (yielded as AsyncIterable<Yielded>)[Symbol.asyncIterator]()
    if (Symbol.iterator in yielded) return (yielded as Iterable<Yielded>)[Symbol.iterator]()
  }
  throw new AgentError(
    'InvalidAgentOutput',
    'The agent yields nothing: it must be a generator, `async function* (input, signal)`'
  )
}

/** Builds the message from the yielded texts. */
class Answer {
  readonly #sink: Sink
  readonly #model: string
  #id: string = randomUUID()
  #text = ''
  #reasoning = ''
  #begunAt = performance.now()

  constructor(sink: Sink, model: string, half: HalfAnswer | null = null) {
    this.#sink = sink
    this.#model = model
    if (!half) return
    this.#id = half.messageId
    this.#text = half.text
    this.#reasoning = half.reasoning
  }

  async add(piece: Yielded): Promise<void> {
    if (typeof piece === 'string') return this.#say({ text: piece })
    if (typeof piece !== 'object' || piece === null) throw notYielded(piece)
    if (isReasoning(piece)) return this.#say({ reasoning: piece.reasoning })
    if (isPart(piece)) return this.#wait(this.#sink.emit(piece))
    // Close the current message first: it comes before this in the conversation.
    await this.close()
    await this.#wait(this.#sink.record(piece))
  }

  async #say(piece: { readonly text?: string; readonly reasoning?: string }): Promise<void> {
    this.#text += piece.text ?? ''
    this.#reasoning += piece.reasoning ?? ''
    await this.#wait(this.#sink.emit({ type: 'delta', messageId: this.#id, model: this.#model, ...piece }))
  }

  async close(): Promise<void> {
    if (this.#text === '' && this.#reasoning === '') return
    const message = this.#message()
    await this.#wait(
      this.#sink.record({
        type: 'llm_response',
        caller: 'lead_agent',
        model: this.#model,
        responseId: message.id,
        message,
        finishReason: 'stop',
        usage: null,
        latencyMs: performance.now() - this.#begunAt
      })
    )
    await this.#wait(this.#sink.record({ type: 'step', node: 'agent' }))
    this.#id = randomUUID()
    this.#text = ''
    this.#reasoning = ''
    this.#begunAt = performance.now()
  }

  #message(): AiMessage {
    const said = { text: this.#text, reasoning: this.#reasoning, calls: [], finishReason: 'stop', usage: null }
    return toMessage({ responseId: this.#id, ...said }, this.#id, this.#model)
  }

  async #wait(hasSpace: boolean): Promise<void> {
    if (!hasSpace) await this.#sink.space()
  }
}

function notYielded(given: unknown): AgentError {
  const text = `The agent yielded ${described(given)}: it may yield texts, { reasoning }, stream parts and records`
  return new AgentError('InvalidAgentOutput', text)
}

function isReasoning(piece: object): piece is { readonly reasoning: string } {
  return !('type' in piece) && 'reasoning' in piece && typeof piece.reasoning === 'string'
}

function isPart(piece: object): piece is StreamPart {
  return 'type' in piece && (piece.type === 'delta' || piece.type === 'custom')
}
