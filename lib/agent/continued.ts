// An answer that goes on from its stored half: the same message grows, and what the model says again is left out.
import { type AiMessage, type JsonObject, type Message, textOf } from '../base/types.ts'
import { GROWN } from '../conversation/chunk.ts'
import type { AnswerPiece, Completion, Model, ModelRequest, OnDelta } from './model.ts'
import type { HalfAnswer, ModelInfo } from './runtime.ts'

/** Characters that may be said again at the seam, and the fewest that are taken for a repetition. */
const OVERLAP_MAX = 200
const OVERLAP_MIN = 8

const INSTRUCTION =
  'Your last answer was cut off. Continue it exactly where it stops, from the next character on. Do not repeat anything, do not begin anew, and do not comment on the interruption.'

export interface Half extends HalfAnswer {
  /** Readers of the run have its text. */
  readonly isShown: boolean
}

/** The broken answer at the end of a conversation; null: nothing of it is there to continue from. */
export function halfOf(messages: readonly Message[]): Half | null {
  const last = messages.at(-1)
  if (last?.type !== 'ai' || last.tool_calls.length > 0) return null
  return { messageId: last.id, text: textOf(last.content), reasoning: '', calls: 0, isShown: false }
}

/** As the model is to see it. */
export function halfMessage({ messageId: id, text: content }: Half): AiMessage {
  return {
    type: 'ai',
    id,
    content,
    additional_kwargs: {},
    response_metadata: {},
    name: null,
    tool_calls: [],
    invalid_tool_calls: [],
    usage_metadata: null
  }
}

/** A model whose next answer continues `half`. What it thinks before that is not shown. */
export class ContinuedModel implements Model {
  readonly info: ModelInfo
  readonly takesImages: boolean
  readonly #model: Model
  readonly #half: Half

  constructor(model: Model, half: Half) {
    this.#model = model
    this.#half = half
    this.info = model.info
    this.takesImages = model.takesImages ?? false
  }

  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    const { name, continuation = 'ask' } = this.info
    const messages = continuation === 'prefix' ? request.messages : [...request.messages, asking()]
    const tell = (piece: AnswerPiece) => onDelta({ type: 'delta', messageId: request.messageId, model: name, ...piece })
    const { text: before, reasoning, calls, isShown } = this.#half
    const seam = new Seam(before)
    // Readers see the whole message from its first frame on.
    if (!isShown) tell({ text: before })
    const completion = await this.#model.complete({ ...request, messages }, (delta) => {
      // What the model has folded is only its own part.
      const { text, reasoning: _, toolCall, [GROWN]: __, ...rest } = delta
      const fresh = text === undefined ? '' : seam.add(text)
      if (fresh === '' && !toolCall && rest.usage === undefined) return true
      return onDelta({
        ...rest,
        ...(fresh !== '' && { text: fresh }),
        ...(toolCall && { toolCall: { ...toolCall, index: toolCall.index + calls } })
      })
    })
    const held = seam.end()
    if (held !== '') tell({ text: held })
    return { ...completion, text: before + seam.text, reasoning }
  }
}

const asking = (): JsonObject => ({ role: 'user', content: INSTRUCTION })

/** Holds a continuation back for as long as it may be what stands before the seam already. */
class Seam {
  /** What is new. */
  text = ''
  readonly #tail: string
  #held = ''
  #isOpen = true

  constructor(half: string) {
    this.#tail = half.slice(-OVERLAP_MAX)
  }

  add(text: string): string {
    if (!this.#isOpen) return this.#pass(text)
    this.#held += text
    return this.#mayRepeat() ? '' : this.end()
  }

  end(): string {
    if (!this.#isOpen) return ''
    this.#isOpen = false
    let overlap = Math.min(this.#held.length, this.#tail.length)
    while (overlap >= OVERLAP_MIN && !this.#tail.endsWith(this.#held.slice(0, overlap))) overlap--
    return this.#pass(overlap >= OVERLAP_MIN ? this.#held.slice(overlap) : this.#held)
  }

  /** Whether all that came stands in the tail, so that more of it may follow. */
  #mayRepeat(): boolean {
    return this.#held.length <= this.#tail.length && this.#tail.includes(this.#held)
  }

  #pass(text: string): string {
    this.text += text
    return text
  }
}
