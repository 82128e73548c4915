// The state of a thread that the run's graph writes itself: what the run knows of it are its newest checkpoint, and the values shown
// last.
import type { AgentRecord, StateWrite } from '../agent/runtime.ts'
import type { Store } from '../store/store.ts'
import type { StatePort } from '../agent/states.ts'
import { wellFormedJson } from '../base/json.ts'
import { displayName, type TitleOptions, titleOf } from '../thread/title.ts'
import { isObject, type Json, type Message, type Run, UNPLACED } from '../base/types.ts'
import type { RunEnd } from './run-end.ts'
import { baseOf } from './run-kwargs.ts'
import type { RunState, RunStates, RunTail, StateBefore, StateInput, StateRecords } from './run-state.ts'

/** The graph reads all of it. */
const NO_INPUT: StateInput = { messages: [], inputIds: [], channels: {}, interrupts: [], openCalls: [] }
const NO_STATES: StateBefore = { saved: null, newest: null }

class GraphState implements RunState {
  hasBegun = false
  isAsking = false
  readonly isLong = false
  checkpointId: string | null
  json: string | null = null
  readonly #records: StateRecords
  readonly #most: number

  constructor(records: StateRecords, most: number, checkpointId: string | null) {
    this.#records = records
    this.#most = most
    this.checkpointId = checkpointId
  }

  begin(): void {
    this.hasBegun = true
  }

  input(): StateInput {
    return { ...NO_INPUT, stateCharacters: this.#most }
  }

  /** The graph's frames and writes are its own: only events are left. */
  record(record: AgentRecord): void {
    const { run, journal } = this.#records
    if (record.type === 'heard') journal.begin(record.message, run.follow_up_to_run_id)
    else if (record.type === 'interrupt') this.isAsking = true
    else journal.record(record)
  }

  keep(write: StateWrite): void {
    const { log, put } = this.#records
    // One that answers a question and is asked the next, or fails, makes no checkpoint: it ends where it began.
    if (write.name === 'graph.open') {
      this.checkpointId ??= write.checkpoint.checkpoint_id
      return
    }
    put(write)
    if (write.name === 'graph.put') {
      log.unstored.bytes += write.checkpoint.length + write.metadata.length
      for (const { data } of write.values) log.unstored.bytes += data.length
      if (write.ns === '') this.checkpointId = write.checkpoint_id
    } else for (const { data } of write.writes) log.unstored.bytes += data.length
  }

  shown(json: string): void {
    this.json = json
  }

  /** Unwritten parts are dropped, and a rollback takes back all that the run has written. */
  close(end: RunEnd): void {
    const { run, journal, put } = this.#records
    const { run_id, thread_id } = run
    if (this.hasBegun && !journal.hasBegun) journal.begin(null, run.follow_up_to_run_id)
    journal.breakOff(end.status)
    journal.close(end)
    if (end.rollback) put({ name: 'graph.removeRun', thread_id, run_id })
  }

  /** From the state, or from its first message. */
  title(options: TitleOptions): string | null {
    // Built from a state just above.
    const values = this.json === null ? null : (JSON.parse(this.json) as Json)
    if (!isObject(values)) return null
    const own = displayName(values.title)
    // A run that showed messages before any values is the first of its thread.
    const isFirst = this.#records.run.ordinal % UNPLACED === 1
    if (own !== null || !options.enabled || !isFirst || !Array.isArray(values.messages)) return own
    const said = values.messages.filter((one) => isObject(one) && typeof one.type === 'string' && 'content' in one)
    // A title needs only types and contents.
    return titleOf(said as unknown as Message[], options)
  }

  release(): null {
    return null
  }
}

/** The states of all threads, from what their graphs have written. */
export class WrittenStates implements RunStates {
  readonly #store: Pick<Store, 'graphStates'>
  readonly #states: Pick<StatePort, 'values'>
  readonly #most: number

  /** @param most characters of the longest state with which a run begins */
  constructor(store: Pick<Store, 'graphStates'>, states: Pick<StatePort, 'values'>, most: number) {
    this.#store = store
    this.#states = states
    this.#most = most
  }

  async shown(threadId: string, checkpointId: string | null): Promise<string | null> {
    const values = await this.#states.values(threadId, checkpointId)
    return values && wellFormedJson(values.json)
  }

  bodies: RunStates['bodies'] = (...of) => this.#store.graphStates.bodies(...of)

  before(): Promise<StateBefore> {
    return Promise.resolve(NO_STATES)
  }

  beforeNext(): Promise<null> {
    return Promise.resolve(null)
  }

  of(records: StateRecords): RunState {
    return new GraphState(records, this.#most, null)
  }

  async resumed(records: StateRecords): Promise<RunState> {
    const newest = await this.#store.graphStates.load(records.run.thread_id, '', null)
    return new GraphState(records, this.#most, newest?.checkpoint_id ?? null)
  }

  async followed(run: Run): Promise<(tail: RunTail) => Promise<string>> {
    const before = await this.shown(run.thread_id, baseOf(run))
    return async ({ shown }) => shown ?? before ?? '{}'
  }

  left(): void {}
  forget(): void {}
}
