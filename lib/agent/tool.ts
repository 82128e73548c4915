// A tool: something that the model may ask us to do.
import type { Json, JsonObject } from '../types.ts'

/** On whose behalf a tool works. */
export interface ToolContext {
  /** Aborts when the run is cancelled; what the tool answers after that is not heard. */
  readonly signal: AbortSignal
  /** null: the run of a shared thread. */
  readonly userId: string | null
  readonly threadId: string
  readonly runId: string
  /** The channels of the state other than messages, with what earlier tools of the run changed. */
  readonly channels: Readonly<Record<string, Json>>
}

export interface ToolAnswer {
  /** What the model is told. */
  readonly content: string
  /** New values of channels, whole. */
  readonly channels?: Readonly<Record<string, Json>>
}

/** Thrown by a tool that cannot answer before the user has: the run ends, and the user's answer becomes the tool's. */
export class UserInterrupt extends Error {
  readonly value: Json
  constructor(value: Json) {
    super('The tool waits for the user')
    this.name = 'UserInterrupt'
    this.value = value
  }
}

export interface Tool {
  /** Letters, digits, `_` and `-`, at most 64: model servers refuse other names. */
  readonly name: string
  /** For the model: when and how to use it. */
  readonly description: string
  /** JSON schema of the arguments. */
  readonly parameters: JsonObject
  /** Offered only to models that take images. */
  readonly needsImages?: boolean
  /** A rejection is told to the model with its text; the run goes on. `args` is whatever JSON object the model made up. */
  run(args: JsonObject, context: ToolContext): Promise<string | ToolAnswer>
}

/** Tools that come and go while the process runs. */
export interface ToolSource {
  /** Asked once at the start of every run, which keeps what it got. Must not reject: who has nothing to offer offers nothing. */
  open(): Promise<Toolbox>
}

export interface Toolbox {
  readonly tools: readonly Tool[]
  /** The run is over and calls none of them any more. */
  close(): void
}
