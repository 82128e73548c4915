// A middleware of the lead agent: runs before a model call or after the last answer. It only uses MiddlewareContext;
// its own model calls count as `middleware:<tag>` and make no message [Events 3].
import type { Json, JsonObject, Message } from '../../types.ts'
import type { AgentInput } from '../runtime.ts'

export interface Middleware {
  /** What its events are called after: `middleware:<tag>`, at most 21 characters in all. */
  readonly tag: string
  /** Before every model call of the run. */
  beforeModel?(run: MiddlewareContext): Promise<void>
  /** After the answer that ends the run's work; not after a failure or an abort. */
  afterAnswer?(run: MiddlewareContext): Promise<void>
}

/** For what is done once in a run: true at the first call of each. */
export function oncePerRun(): (run: MiddlewareContext) => boolean {
  const seen = new WeakSet<object>()
  return ({ input }) => !seen.has(input) && Boolean(seen.add(input))
}

export interface MiddlewareContext {
  readonly input: AgentInput
  readonly signal: AbortSignal
  /** The run's model takes images. */
  readonly takesImages: boolean
  /** The conversation up to now, also what is hidden from the model. */
  messages(): readonly Message[]
  channel(name: string): Json | undefined
  /** Adds to the prompt before the conversation, in all later calls of the run. The same tag replaces; null removes. */
  instruct(tag: string, text: string | null): void
  /** Hides the first `count` messages from the model. */
  hide(count: number): void
  /**
   * Content blocks that the model sees as the user's behind the message with that id, in every later call of the run: no part of
   * the conversation, of the state or of a trace. Replaces what was shown before.
   */
  show(shown: ReadonlyMap<string, Json[]>): void
  /** New values of channels, whole. */
  update(channels: Readonly<Record<string, Json>>): Promise<void>
  /** Keeps an event `middleware:<tag>`. */
  note(tag: string, content: JsonObject, metadata?: JsonObject): Promise<void>
  /** Keeps a summary that takes the place of these messages, for the model. */
  summarized(text: string, replacedIds: readonly string[]): Promise<void>
  /**
   * A model call of the middleware: its text, or null when the model failed or took longer than `timeoutMs`.
   * What fails here is journalled and never fails the run.
   * @param modelName null: the run's own
   */
  ask(tag: string, messages: readonly JsonObject[], modelName: string | null, timeoutMs: number): Promise<string | null>
}
