// A tool the model may call.
import type { Json, JsonObject } from '../base/types.ts'
import type { Picture } from './pictures.ts'

/** Context of a tool call. */
export interface ToolContext {
  /** Aborts when the run is cancelled; later results are ignored. */
  readonly signal: AbortSignal
  /** null: in a shared thread. */
  readonly userId: string | null
  readonly threadId: string
  readonly runId: string
  /** The state's channels except messages, including changes by earlier tools of the run. */
  readonly channels: Readonly<Record<string, Json>>
}

export interface ToolAnswer {
  /** The result for the model: a text, or content blocks. */
  readonly content: string | Json[]
  /** Shown to a model that takes images, as long as the run goes on. No state or frame has them: the content says what they are. */
  readonly pictures?: readonly Picture[]
  /** New values of channels. */
  readonly channels?: Readonly<Record<string, Json>>
}

/** Thrown by a tool that needs the user's answer: the run ends, and the answer becomes the tool's result. */
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
  /** Tells the model when and how to use it. */
  readonly description: string
  /** JSON schema of the arguments. */
  readonly parameters: JsonObject
  /** Offered only to models that accept images. */
  readonly needsImages?: boolean
  /** It only reads, or does nothing more when it is called again: one that a crash has cut is made anew. Others are not. */
  readonly isRepeatable?: boolean
  /** A rejection's message goes to the model; the run continues. `args` is any JSON object the model made up. */
  run(args: JsonObject, context: ToolContext): Promise<string | ToolAnswer>
}

/** A changing set of tools. */
export interface ToolSource {
  /**
   * Called once at the start of every run, which keeps the result. Must not reject: return nothing instead.
   * @param context the run's
   * @param isResumed the run has begun before, and needs what it had then
   */
  open(context: JsonObject, isResumed: boolean): Promise<Toolbox>
}

export interface Toolbox {
  readonly tools: readonly Tool[]
  /** The run is over and releases its tools. */
  close(): void
}

/** An assistant may restrict the tools; by default it has all. */
export function wantedTools(names: Json | undefined): (name: string) => boolean {
  return Array.isArray(names) ? (name) => names.includes(name) : () => true
}

/** The first tool of a name wins: a tool server cannot replace a built-in one. */
export function byName(tools: readonly Tool[]): readonly Tool[] {
  const named = new Map<string, Tool>()
  for (const tool of tools) if (!named.has(tool.name)) named.set(tool.name, tool)
  return [...named.values()]
}

export function unknownTool(name: string, tools: readonly Tool[]): string {
  const known = tools.map((tool) => tool.name).join(', ')
  return `There is no tool "${name}". ${known === '' ? 'There are no tools.' : `The tools are: ${known}`}`
}
