// An answer that goes on from its stored half: the same message grows, and what the model says again is left out.
import type { AiMessage, JsonObject, Message } from '../base/types.ts'
import { textOf } from '../base/types.ts'
import type { AnswerPiece, Completion, Model, ModelRequest, OnDelta } from './model.ts'
import type { ModelInfo } from './runtime.ts'

/** Characters that may be said again at the seam, and the fewest that are taken for a repetition. */
const OVERLAP_MAX = 200
const OVERLAP_MIN = 8

const INSTRUCTION =
  'Your last answer was cut off. Continue it exactly where it stops, from the next character on. Do not repeat anything, do not begin anew, and do not comment on the interruption.'

/** The broken answer at the end of a conversation; null: nothing of it is there to continue from. */
export function halfOf(messages: readonly Message[]): { readonly message: AiMessage; readonly text: string } | null {
  const last = messages.at(-1)
  if (last?.type !== 'ai' || last.tool_calls.length > 0) return null
  return { message: last, text: textOf(last.content) }
}

/** A model whose next answer continues `half`. Its reasoning is not shown again. */
export class ContinuedModel implements Model {
  readonly info: ModelInfo
  readonly takesImages: boolean
  readonly #model: Model
  readonly #half: string

  constructor(model: Model, half: string) {
    this.#model = model
    this.#half = half
    this.info = model.info
    this.takesImages = model.takesImages ?? false
  }

  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    const { name, continuation = 'ask' } = this.info
    const messages = continuation === 'prefix' ? request.messages : [...request.messages, asking()]
    const tell = (piece: AnswerPiece) => onDelta({ type: 'delta', messageId: request.messageId, model: name, ...piece })
    const seam = new Seam(this.#half)
    // Readers see the whole message from its first frame on.
    tell({ text: this.#half })
    const completion = await this.#model.complete({ ...request, messages }, ({ text, reasoning: _, ...rest }) => {
      const fresh = text === undefined ? '' : seam.add(text)
      const hasMore = rest.toolCall !== undefined || rest.usage !== undefined
      return fresh === '' && !hasMore ? true : onDelta({ ...rest, ...(fresh !== '' && { text: fresh }) })
    })
    const held = seam.end()
    if (held !== '') tell({ text: held })
    return { ...completion, text: this.#half + seam.text, reasoning: '' }
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
