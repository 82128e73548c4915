// The model interface of agents: takes a conversation and answers in deltas. http/chat-model.ts implements it with a provider,
// demo.ts without.
import type { JsonObject, UsageMetadata } from '../base/types.ts'
import { AgentError, type Delta, type ModelInfo } from './runtime.ts'

export interface Model {
  readonly info: ModelInfo
  /** It accepts `image_url` blocks. */
  readonly takesImages?: boolean
  /**
   * One answer to a conversation.
   * @throws AgentError with a text for the user; the signal's reason after an abort; what `onDelta` throws
   */
  complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion>
}

export interface ModelRequest {
  /** In chat-completions form: see `toChat`. */
  readonly messages: readonly JsonObject[]
  readonly tools?: readonly ToolSpec[]
  /** The form of the answer, for servers that know `response_format`; null: any. */
  readonly format?: JsonObject | null
  readonly settings?: ModelSettings
  readonly signal: AbortSignal
  /** The id of the message, which every delta carries. */
  readonly messageId: string
  /** Called before the first delta. */
  onFirst?(): void
  /** The run and caller, for log lines. */
  readonly about?: CallIds
  /** Awaited after `onDelta` returned false, before more is read. Without it reading never waits. */
  space?(): Promise<void>
}

/** What a run sets instead of the configuration; a missing one stays. */
export interface ModelSettings {
  readonly temperature?: number
  readonly max_tokens?: number
  /** Only for models that know it. */
  readonly reasoning_effort?: string
}

/** The run of a call, as log fields. */
export interface CallIds {
  readonly run_id: string
  readonly thread_id: string
  readonly user_id: string | null
}

/** A tool's definition for the model. */
export interface ToolSpec {
  readonly name: string
  readonly description: string
  /** JSON schema of the arguments. */
  readonly parameters: JsonObject
}

/** Receives every delta of an answer; returns false when there is no more space for now. */
export type OnDelta = (delta: Delta) => boolean

/** The content of one delta. */
export type AnswerPiece = Pick<Delta, 'text' | 'reasoning' | 'toolCall' | 'usage'>

/** A complete answer as the provider gave it. */
export interface Completion {
  /** The provider's id, or one of ours. */
  readonly responseId: string
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly RawCall[]
  /** The provider's finish reason; null: none. */
  readonly finishReason: string | null
  readonly usage: UsageMetadata | null
}

/** A tool call with unparsed arguments. */
export interface RawCall {
  readonly id: string
  readonly name: string
  readonly args: string
}

/** A failure of a remote server. */
export class PeerError extends AgentError {
  /** The HTTP status; null: none. */
  readonly status: number | null
  attempts = 1
  constructor(kind: string, message: string, status: number | null = null) {
    super(kind, message)
    this.status = status
  }
}

// --------------------------------------------------------------------------------- The configured models by name

export class Models {
  #all: readonly Model[] = []

  /** @param all at least one; the first is the default */
  constructor(all: readonly Model[]) {
    this.replace(all)
  }

  get all(): readonly Model[] {
    return this.#all
  }

  /** Calls that are going on end with the model that they began with. */
  replace(all: readonly Model[]): void {
    if (all.length === 0) throw new Error('At least one model is needed')
    this.#all = all
  }

  /** @returns null for a name that is not configured */
  named(name: string | null): Model | null {
    return (name === null ? this.all[0] : this.all.find(({ info }) => info.name === name)) ?? null
  }
}
