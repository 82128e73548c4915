// Middleware of the lead agent: runs before model calls or after the last answer, and only uses MiddlewareContext. Its own model
// calls count as `middleware:<tag>` and produce no message [Events 3].
import type { Json, JsonObject, Message } from '../base/types.ts'
import type { Picture } from './pictures.ts'
import type { AgentInput } from './runtime.ts'

export interface Middleware {
  /** Names its events: `middleware:<tag>`, at most 21 characters in all. */
  readonly tag: string
  /** Before every model call of the run. */
  beforeModel?(run: MiddlewareContext): Promise<void>
  /** After the final answer; not after a failure or an abort. */
  afterAnswer?(run: MiddlewareContext): Promise<void>
}

/** Returns a function that is true on the first call for each run. */
export function oncePerRun(): (run: MiddlewareContext) => boolean {
  const seen = new WeakSet<object>()
  return ({ input }) => !seen.has(input) && Boolean(seen.add(input))
}

export interface MiddlewareContext {
  readonly input: AgentInput
  readonly signal: AbortSignal
  /** The run's model accepts images. */
  readonly takesImages: boolean
  /** The conversation so far, including hidden messages. */
  messages(): readonly Message[]
  /** Those that a tool has made with the result of that id. */
  pictures(resultId: string): readonly Picture[]
  channel(name: string): Json | undefined
  /** Adds to the system prompt of all later calls of the run. The same tag replaces; null removes. */
  instruct(tag: string, text: string | null): void
  /** Hides the first `count` messages from the model. */
  hide(count: number): void
  /**
   * Content blocks shown to the model as a user message after the message with that id, in all later calls of the run. They are
   * not part of the conversation, the state or traces. Replaces earlier ones.
   */
  show(shown: ReadonlyMap<string, Json[]>): void
  update(channels: Readonly<Record<string, Json>>): Promise<void>
  note(tag: string, content: JsonObject, metadata?: JsonObject): Promise<void>
  /** Records that a summary replaces these messages for the model. */
  summarized(text: string, replacedIds: readonly string[]): Promise<void>
  /**
   * A model call of the middleware: its text, or null if it failed or took longer than `timeoutMs`. Failures are recorded and
   * never fail the run.
   * @param modelName null: the run's model
   */
  ask(tag: string, messages: readonly JsonObject[], modelName: string | null, timeoutMs: number): Promise<string | null>
}
