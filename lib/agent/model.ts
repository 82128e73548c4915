// A model, as an agent sees it: it is asked one conversation at a time, and answers in deltas. chat-model.ts is behind a
// provider, demo.ts behind nobody.
import type { JsonObject, UsageMetadata } from '../types.ts'
import type { Delta, ModelInfo } from './runtime.ts'

export interface Model {
  readonly info: ModelInfo
  /** True: it takes `image_url` blocks. */
  readonly takesImages?: boolean
  /**
   * One answer to a conversation.
   * @throws AgentError, its text for a person; the signal's reason after an abort; what `onDelta` throws.
   */
  complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion>
}

export interface ModelRequest {
  /** In chat-completions form: see `toChat`. */
  readonly messages: readonly JsonObject[]
  readonly tools?: readonly ToolSpec[]
  readonly signal: AbortSignal
  /** Goes into every delta: the id that the message will have. */
  readonly messageId: string
  /** The first delta is about to come. */
  onFirst?(): void
  /** In whose name it is asked, for lines of the log. */
  readonly about?: CallIds
  /** Awaited before more is read, after `onDelta` answered false. Without it nobody is waited for. */
  space?(): Promise<void>
}

/** The run that a call belongs to, in the words of the log. */
export interface CallIds {
  readonly run_id: string
  readonly thread_id: string
  readonly user_id: string | null
}

/** What a model needs to know of a tool. */
export interface ToolSpec {
  readonly name: string
  readonly description: string
  /** JSON schema of the arguments. */
  readonly parameters: JsonObject
}

/** Hears every piece of an answer; false: there is no more space for now. */
export type OnDelta = (delta: Delta) => boolean

/** What one piece of an answer says. */
export type AnswerPiece = Pick<Delta, 'text' | 'reasoning' | 'toolCall' | 'usage'>

/** A whole answer, as the provider gave it. */
export interface Completion {
  /** The provider's id, or one of ours. */
  readonly responseId: string
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly RawCall[]
  /** The provider's word; null: it said none. */
  readonly finishReason: string | null
  readonly usage: UsageMetadata | null
}

/** A tool call before anybody has looked at its arguments. */
export interface RawCall {
  readonly id: string
  readonly name: string
  readonly args: string
}
