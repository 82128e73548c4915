// The state of a thread as one run changes it, and where runs get theirs: one port, whether a run builds the state from its agent's
// records or its graph writes it.
import type { AgentInput, AgentRecord, StateWrite } from '../agent/runtime.ts'
import type { Op, Store } from '../store/store.ts'
import type { TitleOptions } from '../thread/title.ts'
import type { JsonObject, Message, Run, RunEvent } from '../base/types.ts'
import type { Journal } from './log/journal.ts'
import type { RunLog } from './log/run-log.ts'
import type { SavedState } from '../thread/state.ts'
import type { ShownStates } from './log/values-frame.ts'
import type { RunEnd } from './run-end.ts'

/** What a run starts from, read from the store. */
export interface StateBefore {
  /** null: nothing, or its graph reads the state itself. */
  readonly saved: SavedState | null
  /** The thread's newest state, which is another one where the run starts from an earlier checkpoint. */
  readonly newest: SavedState | null
  /** What earlier attempts have stored since; absent: nothing, or this is the first. */
  readonly earlier?: StoredAttempts
}

export interface StoredAttempts {
  /** With the run's input. */
  readonly begun: SavedState
  readonly newest: SavedState
  /** Complete messages that are in no state yet. */
  readonly whole: readonly Message[]
  /** See EarlierAttempts. */
  readonly offset: JsonObject | null
}

/** What a state is changed with: frames for readers, events for the history, ops for the store. */
export interface StateRecords {
  readonly run: Run
  readonly log: RunLog
  readonly journal: Journal
  readonly put: (op: Op) => void
}

/** What the agent is given of the state. */
export type StateInput = Pick<
  AgentInput,
  'messages' | 'inputIds' | 'channels' | 'interrupts' | 'openCalls' | 'earlier' | 'stateCharacters'
>

export interface RunState {
  readonly hasBegun: boolean
  /** The agent has asked its user. */
  readonly isAsking: boolean
  /** Its conversation has so many messages that iterating over them takes a while. */
  readonly isLong: boolean
  /** The newest checkpoint: of a run that has made none, the one it started from. */
  readonly checkpointId: string | null
  /** JSON as streams show it; null: nothing to show yet. */
  readonly json: string | null

  /** Applies the run's input. */
  begin(before: StateBefore): void
  input(): StateInput
  /** Applies what the agent records, with the frames and events that follow from it. */
  record(record: AgentRecord): void
  /** Stores what a graph has written of it, and notes what it started from. */
  keep(write: StateWrite): void
  /** The agent has shown this state, as JSON, itself. */
  shown(json: string): void
  /** Leaves a state the next run can start from. */
  close(end: RunEnd, title: TitleOptions): void
  /** The thread's new title; null: unchanged. */
  title(options: TitleOptions): string | null
  /** Drops everything from memory. Returns what the next run can start from; null: it has to be read. */
  release(): SavedState | null
}

/** What a run has stored and no checkpoint holds. */
export interface RunTail {
  /** Its last checkpoint in the log; null: none. */
  readonly checkpointId: string | null
  /** JSON of the values it showed itself, last; null: none. */
  readonly shown: string | null
  /** Complete messages. */
  readonly whole: readonly Message[]
}

/** The states of all threads, for runs and their readers. */
export interface RunStates extends ShownStates {
  /** Reads what a run starts from, when there is room for it until `signal` aborts; null: its checkpoint does not exist. */
  before(run: Run, signal: AbortSignal): Promise<StateBefore | null>
  /** The same for a run whose process is gone, with what is stored of it; null: nothing is, or its graph reads the state itself. */
  beforeNext(
    run: Run,
    store: Pick<Store, 'frames'>,
    head: number,
    given: { readonly journal: Journal; readonly events: readonly RunEvent[] }
  ): Promise<StateBefore | null>
  /** The state of a run that begins. */
  of(records: StateRecords): RunState
  /** The state of a run whose process is gone, from what is stored; `head`: the end of its log. */
  resumed(
    records: StateRecords,
    store: Pick<Store, 'frames'>,
    head: number,
    events: readonly RunEvent[]
  ): Promise<RunState>
  /** Reads what a run of another process started from. Returns its JSON with the rest of the run, which is to be read after it. */
  followed(run: Run): Promise<(tail: RunTail) => Promise<string>>
  /** A run has ended, and this is the thread's newest state. */
  left(threadId: string, saved: SavedState): void
  /** A thread was deleted, or its state changes elsewhere. */
  forget(threadId: string): void
}
