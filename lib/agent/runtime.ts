// The port between a run and its agent, and all that an agent depends on: it gets the conversation, emits through a sink, and
// stops when its signal aborts.
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
} from '../base/types.ts'
import type { GROWN, GrowingMessage } from '../conversation/chunk.ts'
import type { GraphWrite, StoredGraphCheckpoint } from '../conversation/state.ts'
import type { GraphDescriptions, KeptStates, StatePort } from './states.ts'

/** Who called the model: the lead agent, a subagent, or a middleware (title, summary). */
export type Caller = 'lead_agent' | `subagent:${string}` | `middleware:${string}`

export interface AgentInput {
  readonly threadId: string
  readonly runId: string
  /** The run's user, captured at its creation; null for shared threads. */
  readonly userId: string | null
  readonly assistantId: string
  /** Open interrupts of the previous run. */
  readonly interrupts: readonly Interrupt[]
  /** Open tool calls of the last answer: those that interrupted, and others called with them. */
  readonly openCalls: readonly ToolCall[]
  /** The user's answer to the interrupts; null: the conversation continues without one. */
  readonly resume: { readonly value: Json } | null
  /** The conversation with the run's input applied. */
  readonly messages: readonly Message[]
  /** Ids of the messages in the run's input. In a shared thread, other messages may be anybody's. */
  readonly inputIds: readonly string[]
  /** The other channels of the state (title, artifacts, todos...), including internal ones (`__pregel_...`) that clients do not see. */
  readonly channels: Readonly<Record<string, Json>>
  /** The caller's context and config.configurable, without keys that speak for a user. */
  readonly context: JsonObject
  /** Name of a configured model; null is the first. */
  readonly modelName: string | null
  /** Model calls at most. */
  readonly recursionLimit: number
  /** The graph of the run's assistant; null: the first. */
  readonly graphId: string | null
  /** The original request of the run: for agents that keep their states themselves. */
  readonly request: JsonObject
  /** Attempt number: above 1 when earlier attempts were cut off. */
  readonly attempt: number
  /** The answer of this earlier run is to be continued. */
  readonly continues?: string | null
  /** Messages that come while it works; only for an agent that takes input. */
  readonly inbox?: { readonly isEmpty: boolean; take(): HumanMessage[] }
  /** Messages already recorded as events by earlier attempts; others in the state still have to be. */
  readonly recordedIds?: ReadonlySet<string>
  /** What earlier attempts have recorded, where all else is as the first one was given it; absent: nothing, or the agent keeps its states. */
  readonly earlier?: EarlierAttempts
  /** Another attempt goes on when this process is gone: what must not happen twice is to be stored before it happens (`Sink.flushed`). */
  readonly goesOn?: boolean
  /** Of the longest state that a run may begin with, for agents that keep their states themselves; absent: any. */
  readonly stateCharacters?: number
}

export interface EarlierAttempts {
  readonly messages: readonly Message[]
  readonly channels: Readonly<Record<string, Json>>
  /** See Sink.reached; null: nothing was stored of it. */
  readonly offset: JsonObject | null
  /** The answer that was in progress, of an agent that can resume; null: none was, or nothing of it is kept. */
  readonly half: HalfAnswer | null
  /** The run has asked its user already. */
  readonly isAsking: boolean
  /** Calls of the last answer without a result, and questions of the previous run that are not answered yet. */
  readonly openCalls: readonly ToolCall[]
  /** Ids of those that had begun. */
  readonly begunCalls: readonly string[]
}

/**
 * An answer as far as it was stored. Deltas of the same message make it longer; if it has none, it is kept as it is at the end, and a
 * record `messages` that removes it drops it.
 */
export interface HalfAnswer {
  readonly messageId: string
  readonly text: string
  /** What was thought before the text. */
  readonly reasoning: string
  /** Tool calls that it had begun. They are dropped: further ones are numbered from here on. */
  readonly calls: number
}

/** A delta of an assistant message as the model sent it. All deltas with one messageId make one message. */
export interface Delta {
  readonly type: 'delta'
  readonly messageId: string
  /** Name of the configured model. */
  readonly model: string
  readonly text?: string
  readonly reasoning?: string
  /** A fragment of a tool call: the first of an index carries id and name, all carry a piece of the argument text. */
  readonly toolCall?: { readonly index: number; readonly id?: string; readonly name?: string; readonly args: string }
  /** What its graph says of the message, shown beside it. */
  readonly metadata?: JsonObject
  /** Usage so far: counted if the message is broken off, and not shown before it is complete. */
  readonly usage?: UsageMetadata
  /** Its message with this delta, where it was folded already: nobody folds it again. */
  [GROWN]?: GrowingMessage
}
/** Custom data to show while the agent works; mode `custom`. */
interface Custom {
  readonly type: 'custom'
  readonly name?: string
  readonly data: Json
}
export const FRAME_MODES = [
  'values',
  'messages',
  'custom',
  'tools',
  'updates',
  'tasks',
  'checkpoints',
  'debug',
  /** Names the checkpoint of the values that follow: for readers of whole threads. */
  'envelope',
  'events',
  /** What a graph's stream transformers make, `{ name, payload }`: for readers of protocol v2. */
  'extension',
  /** A message that joined the conversation and that no frame of `messages` has shown there: for readers of other protocols. */
  'joined'
] as const
export type FrameMode = (typeof FRAME_MODES)[number]

/** A frame sent unchanged to readers of its mode, from agents that keep their states themselves. */
export interface Frame {
  readonly type: 'frame'
  readonly mode: FrameMode
  /** Event name: the mode, with the namespace of the subgraph. */
  readonly event: string
  readonly json: string
}
/** Output shown while the agent works. */
export type StreamPart = Delta | Custom | Frame

/** How a message is shown: with what its graph says of it; or not, as the agent has shown it in frames of its own. */
export type ShownBesides = { readonly metadata: JsonObject } | 'frames'

/** Records to keep. The run turns them into events, state and frames. */
export type AgentRecord =
  /** A model call starts. `messages` in chat-completions form. The run numbers its calls in order. */
  | {
      readonly type: 'llm_request'
      readonly caller: Caller
      readonly model: string
      readonly messages: readonly JsonObject[]
      /** Id of the answer's message: pairs request and answer when several calls overlap. */
      readonly messageId?: string
    }
  /** The answer is complete. A lead agent's message joins the conversation; other callers' do not [Events 3], though they were shown. */
  | {
      readonly type: 'llm_response'
      readonly caller: Caller
      readonly model: string
      /** The provider's id of the completion. */
      readonly responseId: string
      readonly message: AiMessage
      /** The provider's finish reason, or one derived from the message. */
      readonly finishReason: string
      readonly usage: UsageMetadata | null
      readonly latencyMs: number
      /** Time to the first delta, if known. */
      readonly firstTokenMs?: number
      readonly shown?: ShownBesides
    }
  | { readonly type: 'llm_error'; readonly caller: Caller; readonly error: string; readonly messageId?: string }
  | { readonly type: 'tool_start'; readonly call: ToolCall }
  /** The result joins the conversation. A failed tool is a message with status error. */
  | {
      readonly type: 'tool_end'
      readonly call: ToolCall
      readonly message: ToolMessage
      readonly shown?: ShownBesides
    }
  /** Other changes to the conversation: messages are added, replaced by id, or removed. */
  | {
      readonly type: 'messages'
      readonly messages: readonly (Message | { readonly type: 'remove'; readonly id: string })[]
    }
  /** Channels other than messages get new values. */
  | { readonly type: 'update'; readonly channels: Readonly<Record<string, Json>> }
  /**
   * A superstep of `node` is over: changes since the last one become a checkpoint. `next`: the nodes that would run
   * next; by default those of an agent that alternates model and tools. `hasUpdates`: frames of mode `updates` are the agent's.
   */
  | { readonly type: 'step'; readonly node: string; readonly next?: readonly string[]; readonly hasUpdates?: boolean }
  /**
   * The agent needs its user's answer. It closes its step and returns; the run ends `interrupted`, and a later run
   * given `resume` continues. `asked`: the question as a message, where an open tool call has that id.
   */
  | {
      readonly type: 'interrupt'
      readonly interrupt: Interrupt
      readonly asked?: ToolMessage
      readonly hasUpdates?: boolean
    }
  /** Messages that came while the agent worked, and join the conversation. */
  | { readonly type: 'input'; readonly messages: readonly HumanMessage[] }
  /** The user's message in the state, from agents that keep their states themselves. Once, before all else. */
  | { readonly type: 'heard'; readonly message: HumanMessage | null }
  /** Old messages were replaced by a summary, for the model. */
  | { readonly type: 'summarization'; readonly text: string; readonly replacedIds: readonly string[] }
  | { readonly type: 'middleware'; readonly tag: string; readonly content: JsonObject; readonly metadata: JsonObject }

/** A store op that writes the agent's own states; or the stored state it starts from, of which its values frames may name bodies. */
export type StateWrite = GraphWrite | { readonly name: 'graph.open'; readonly checkpoint: StoredGraphCheckpoint }

/** The sink validates everything once (check.ts): invalid output fails the run with a sentence that names the field. */
export interface Sink {
  /** Shows a part at once. Synchronous; false: too much is unstored, so await `space` before the next. */
  emit(part: StreamPart): boolean
  /** Records something to keep; returns the same. */
  record(record: AgentRecord): boolean
  /** Resolves when there is space again, or the run is over. */
  space(): Promise<void>
  /** Stores part of a state the agent keeps itself, in order with the run's other records. */
  keep(write: StateWrite): void
  /** Resolves when everything so far is stored, or the run is over. */
  flushed(): Promise<void>
  /**
   * All that was emitted and recorded so far comes of what the agent reads elsewhere, up to here: stored together with it, and given to the
   * attempt that goes on.
   */
  reached(offset: JsonObject): void
}

/** The abort reason where another attempt goes on, here or in another process: what works for the run elsewhere is not to be stopped. */
export const RUN_GOES_ON = new DOMException('Another attempt goes on with the run', 'AbortError')

/** An error whose message is meant for the user: it becomes the run's error, verbatim. */
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

/** A run does not begin: it passes its whole state on. */
export function stateTooLong(characters: number, most: number): AgentError {
  const text = `The thread's state has ${characters} characters, more than ${most}: compact it, or begin a new thread`
  return new AgentError('ConversationTooLong', text)
}

/** The agent was cut in the middle of a run, which can go on from the state it has stored last. */
export class RunCut extends AgentError {
  /** `drain`: on being asked to; `loss`: what it works in is gone; `end`: an earlier attempt was cut, and nothing of it can go on. */
  readonly reason: 'drain' | 'loss' | 'end'
  constructor(reason: RunCut['reason'], kind: string, message: string) {
    super(kind, message)
    this.reason = reason
  }
}

export interface Agent {
  /**
   * Works until it is the user's turn. Rejects with an AgentError for external failures; any other rejection is a bug
   * and fails the run too. After `signal` aborts, output is ignored.
   */
  start(input: AgentInput, sink: Sink, signal: AbortSignal): Promise<void>
  /** Present if it keeps its threads' states itself; otherwise our checkpoints do. */
  readonly states?: StatePort
  /** Of one whose states our checkpoints keep, and others with them: shows both. */
  statesOver?(kept: KeptStates): StatePort
  /** Of one with graphs whose states our checkpoints keep: they take breakpoints, and say themselves what they are. */
  readonly graphs?: GraphDescriptions
  /** Its runs go on elsewhere when this process is gone: another attempt follows them from where the last one was [agent.rejoin]. */
  readonly canRejoin?: boolean
  /** Another attempt can go on from what is recorded (`AgentInput.earlier`), under `runs.on_restart: resume`. */
  readonly canResume?: boolean
  /** Frames of `tasks`, `checkpoints` and `debug` are its own; otherwise they are made of the steps it records. */
  readonly showsDetails?: boolean
  /** It takes messages while it works, from its `inbox`. */
  readonly takesInput?: boolean
  /** It honours what clients put into the run's context: see client-context.ts. */
  readonly takesClientContext?: boolean
  /** What GET /api/models shows; none by default. */
  models?(): readonly ModelInfo[]
  /**
   * The thread is deleted: drops data kept outside the run's state.
   * @throws Error when it cannot
   */
  forget?(threadId: string): Promise<void>
  /**
   * The process is about to end: `start` of runs that can stop where they can go on rejects with RunCut. The others work on until they
   * are aborted.
   */
  drain?(): void
  /**
   * A run has ended because its process is gone: stops what of it goes on elsewhere.
   * @throws Error when it cannot
   */
  abandon?(threadId: string, runId: string): Promise<void>
  /**
   * Assigns an owner to its own threads from before this gateway [Auth 12]. Called once at start.
   * @param onFailed called for a thread that could not be changed; the others are
   * @returns how many got an owner
   * @throws Error when they cannot be listed
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
  /** How it goes on with a broken answer: from its text, on being asked, or not at all. Default: ask. */
  readonly continuation?: 'prefix' | 'ask' | 'none'
}
