// The port between a run and what produces its deltas. An agent sees this file and nothing else of the service: it is given
// the conversation, tells what happens through a sink, and stops when its signal aborts.
import type {
  AiMessage,
  HumanMessage,
  Interrupt,
  Json,
  JsonObject,
  Message,
  ToolCall,
  ToolMessage,
  UsageMetadata
} from '../types.ts'
import type { GraphWrite } from './langgraph/saver.ts'
import type { StatePort } from './states.ts'

/** Who asked the model: the lead agent itself, one of its helpers, or a middleware (title, summary). */
export type Caller = 'lead_agent' | `subagent:${string}` | `middleware:${string}`

export interface AgentInput {
  readonly threadId: string
  readonly runId: string
  /** Whose run it is, captured when it was created; null for shared threads. */
  readonly userId: string | null
  readonly assistantId: string
  /** The questions that the run before this one has ended with. */
  readonly interrupts: readonly Interrupt[]
  /** Calls of the last answer that have no result yet: those that ask, and what was called beside them. */
  readonly openCalls: readonly ToolCall[]
  /** The user's answer to the questions; null: there is none, and the conversation goes on without. */
  readonly resume: { readonly value: Json } | null
  /** The conversation with the run's input applied. */
  readonly messages: readonly Message[]
  /** Ids of those that came with this run: what its own user says. In a shared thread the others are anybody's. */
  readonly inputIds: readonly string[]
  /** The other channels of the state (title, artifacts, todos...), with those that begin with `__pregel_` and clients do not see. */
  readonly channels: Readonly<Record<string, Json>>
  /** What the caller passed along: context and config.configurable, without what speaks for a user. */
  readonly context: JsonObject
  /** Name of a configured model; null is the first. */
  readonly modelName: string | null
  /** Model calls at most. */
  readonly recursionLimit: number
  /** The graph that the run's assistant is of; null: the first. */
  readonly graphId: string | null
  /** All that the run was asked for, as it was asked: for an agent that keeps its states itself. */
  readonly request: JsonObject
  /** 1, and more when attempts before this one were cut off. */
  readonly attempt: number
}

/** A piece of an assistant message as the model sent it. All pieces with one messageId make one message. */
export interface Delta {
  readonly type: 'delta'
  readonly messageId: string
  /** Name of the configured model. */
  readonly model: string
  readonly text?: string
  readonly reasoning?: string
  /** A fragment of a tool call: the first of an index carries id and name, all carry a piece of the arguments' text. */
  readonly toolCall?: { readonly index: number; readonly id?: string; readonly name?: string; readonly args: string }
  /** What the message has cost so far: counted when it is broken off, and shown to nobody before it is whole. */
  readonly usage?: UsageMetadata
}
/** Anything the agent wants to show while it works; mode `custom`. */
export interface Custom {
  readonly type: 'custom'
  readonly name?: string
  readonly data: Json
}
export type FrameMode =
  | 'values'
  | 'messages'
  | 'custom'
  | 'tools'
  | 'updates'
  | 'tasks'
  | 'checkpoints'
  | 'debug'
  /** Which checkpoint the values behind it are of: for readers of whole threads. */
  | 'envelope'
  | 'events'
/** Something that readers of a mode see word for word: of an agent that keeps its states itself. */
export interface Frame {
  readonly type: 'frame'
  readonly mode: FrameMode
  /** Name of the event: the mode, with the graph inside that it comes from. */
  readonly event: string
  readonly json: string
}
/** What is shown while the agent works. */
export type StreamPart = Delta | Custom | Frame

/** What is worth keeping. The run turns records into events, state and frames. */
export type AgentRecord =
  /** A model call begins. `messages` in chat-completions form. Calls are numbered by the run, in order. */
  | {
      readonly type: 'llm_request'
      readonly caller: Caller
      readonly model: string
      readonly messages: readonly JsonObject[]
      /** Of the message that it will answer with: what pairs the two where several calls are under way. */
      readonly messageId?: string
    }
  /** It is complete. A lead agent's message joins the conversation; that of others does not [Events 3], though it was shown. */
  | {
      readonly type: 'llm_response'
      readonly caller: Caller
      readonly model: string
      /** The provider's id of the completion. */
      readonly responseId: string
      readonly message: AiMessage
      /** As the provider says it, else what follows from the message. */
      readonly finishReason: string
      readonly usage: UsageMetadata | null
      readonly latencyMs: number
      /** From the question to the first piece of the answer, where that is known. */
      readonly firstTokenMs?: number
    }
  | { readonly type: 'llm_error'; readonly caller: Caller; readonly error: string; readonly messageId?: string }
  | { readonly type: 'tool_start'; readonly call: ToolCall }
  /** The result joins the conversation. A failed tool is a message with status error, not an exception. */
  | { readonly type: 'tool_end'; readonly call: ToolCall; readonly message: ToolMessage }
  /** The conversation is changed otherwise: messages are added, take the place of those with their ids, or are taken out. */
  | {
      readonly type: 'messages'
      readonly messages: readonly (Message | { readonly type: 'remove'; readonly id: string })[]
    }
  /** Channels other than messages get new values. */
  | { readonly type: 'update'; readonly channels: Readonly<Record<string, Json>> }
  /**
   * A superstep of `node` is over: what joined the state since the last one becomes a checkpoint. `next`: the nodes that would go on
   * from it; without it those of an agent that asks a model and uses tools in turns.
   */
  | { readonly type: 'step'; readonly node: string; readonly next?: readonly string[] }
  /**
   * The agent cannot go on without its user. It closes its step and returns; the run ends `interrupted`, and a later one that is
   * given `resume` goes on. `asked`: the question as a message, where a tool call of that id waits for the answer.
   */
  | { readonly type: 'interrupt'; readonly interrupt: Interrupt; readonly asked?: ToolMessage }
  /** What the run's user says, as it stands in the state: from an agent that keeps that itself. Once, before all else. */
  | { readonly type: 'heard'; readonly message: HumanMessage | null }
  /** Old messages have been replaced, for the model, by a summary. */
  | { readonly type: 'summarization'; readonly text: string; readonly replacedIds: readonly string[] }
  | { readonly type: 'middleware'; readonly tag: string; readonly content: JsonObject; readonly metadata: JsonObject }

/** An op of the store that writes states of the agent's own. */
export type StateWrite = GraphWrite

/** What an agent hands over is checked once, here (check.ts): what is not right fails the run, with a sentence that names the field. */
export interface Sink {
  /** Shows a part at once. Synchronous; false: the log has too much that is not stored yet, so await `space` before the next. */
  emit(part: StreamPart): boolean
  /** Keeps a record. The same answer. */
  record(record: AgentRecord): boolean
  /** Resolves when there is space again, or the run is over. */
  space(): Promise<void>
  /** Stores something of a state that the agent keeps itself, with the run's other records and in their order. */
  keep(write: StateWrite): void
  /** Resolves when everything so far is stored, or the run is over. */
  flushed(): Promise<void>
}

/** A failure whose text is meant for a person: it becomes the run's error, word for word. */
export class AgentError extends Error {
  /** Class name for the error frame, e.g. `ModelUnavailable`. */
  readonly kind: string
  /** Stored as the run's stop_reason when set, e.g. `loop_capped`. */
  readonly stopReason: string | null
  constructor(kind: string, message: string, stopReason: string | null = null) {
    super(message)
    this.name = kind
    this.kind = kind
    this.stopReason = stopReason
  }
}

export interface Agent {
  /**
   * Works until the conversation needs its user again. Rejects with an AgentError for what went wrong outside; any other
   * rejection is a programmer's error and fails its run all the same. After `signal` aborts nothing it tells is heard.
   */
  start(input: AgentInput, sink: Sink, signal: AbortSignal): Promise<void>
  /** It keeps the states of its threads itself; without it our checkpoints do. */
  readonly states?: StatePort
  /** What GET /api/models shows; none by default. */
  models?(): readonly ModelInfo[]
  /** Its thread is deleted: drops what it keeps of that outside of the run's state. @throws Error when it cannot */
  forget?(threadId: string): Promise<void>
  /**
   * Threads of its own that belong to nobody, from before this gateway, get an owner [Auth 12]. Asked once at start.
   * @param onFailed a thread that could not be changed; the others are
   * @returns how many have got one. @throws Error when they cannot be listed
   */
  adoptThreads?(
    ownerId: string,
    signal: AbortSignal,
    onFailed: (threadId: string, error: unknown) => void
  ): Promise<number>
}

export type ListedAgent = Agent & Required<Pick<Agent, 'models'>>

export interface ModelInfo {
  readonly name: string
  readonly model: string
  readonly display_name: string | null
  readonly description: string | null
  readonly supports_thinking: boolean
  readonly supports_reasoning_effort: boolean
}
