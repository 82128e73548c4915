// The account of a run: what its agent tells, as frames for those who watch, events for those who ask later, and the state that the
// next run goes on from; and how all three are closed, whatever ends the run.
import type { AgentInput, AgentRecord, StreamPart } from '../../agent/runtime.ts'
import type { Settlement } from '../../store/store.ts'
import { displayName, type TitleOptions, titleOf } from '../../thread/title.ts'
import { type Interrupt, type Message, type Run, type RunTotals, timestamp } from '../../types.ts'
import { errorJson, lastChunkJson, shortChunk, shortWhole, wholeJson } from '../log/message.ts'
import { ASKING, type RunEnd, REFUSED, threadStatusAfter } from './run-end.ts'
import { Kind } from '../log/filter.ts'
import type { Sources } from './handover.ts'
import type { Journal } from '../log/journal.ts'
import type { RunLog } from '../log/run-log.ts'
import { type Snapshot, snapshotOf } from '../log/snapshot.ts'
import type { StateBuilder } from '../log/state-builder.ts'
import type { SavedState } from '../log/state-cache.ts'
import { contextOf, inputOf, lastHuman, recursionLimitOf, resumeOf } from '../run-kwargs.ts'

export interface AccountOptions {
  readonly recursionLimit: number
  readonly title: TitleOptions
}

export class Account {
  readonly #run: Run
  readonly #frames: RunLog
  readonly #journal: Journal
  readonly #steps: StateBuilder
  readonly #options: AccountOptions
  #asks = false

  constructor(run: Run, { frames, journal, steps }: Sources, options: AccountOptions) {
    this.#run = run
    this.#frames = frames
    this.#journal = journal
    this.#steps = steps
    this.#options = options
  }

  /** The agent has asked its user something, and ends with that. */
  get isAsking(): boolean {
    return this.#asks
  }

  /** Goes on from a stored state, or from none, with what the run was given. */
  begin(saved: SavedState | null): void {
    const input = inputOf(this.#run)
    this.#journal.begin(lastHuman(input.messages), this.#run.follow_up_to_run_id)
    this.#steps.open(saved)
    this.#journal.owe(this.#steps.askedBefore.openCalls)
    // What is said instead of an answer comes behind it.
    const unanswered = resumeOf(this.#run) ? [] : this.#journal.closeCalls()
    this.#steps.begin({ ...input, messages: [...unanswered, ...input.messages] })
  }

  /** What the agent is given. */
  input(): AgentInput {
    const run = this.#run
    const { state } = this.#steps
    return {
      threadId: run.thread_id,
      runId: run.run_id,
      userId: run.user_id,
      assistantId: run.assistant_id ?? 'lead_agent',
      resume: resumeOf(run),
      messages: state.messages(),
      inputIds: inputOf(run).messages.map(({ id }) => id),
      channels: state.channels(),
      context: contextOf(run),
      modelName: run.model_name,
      recursionLimit: recursionLimitOf(run, this.#options.recursionLimit),
      ...this.#steps.askedBefore
    }
  }

  // ------------------------------------------------------------------------------------------- what the agent tells

  /** Something to show. On the live path: encoded once, for everybody and for the disk. */
  emit(part: StreamPart): void {
    if (part.type === 'delta') {
      this.#show(part.messageId, this.#journal.messages.say(part))
    } else {
      if (part.name !== undefined) this.#journal.custom(part.name, part.data)
      this.#frames.append(Kind.custom, 'custom', JSON.stringify(part.data))
    }
  }

  #show(id: string, chunks: readonly string[]): void {
    for (const json of chunks) this.#frames.append(Kind.messages, 'messages', json, shortChunk({ id }))
  }

  /** Something to keep. */
  record(record: AgentRecord): void {
    const isReply = record.type === 'llm_response' && record.caller === 'lead_agent'
    if (isReply) this.#show(record.message.id, this.#journal.messages.complete(record.message.id))
    this.#journal.record(record)
    if (isReply) {
      const { message } = record
      this.#frames.append(Kind.messages, 'messages', lastChunkJson(message), shortChunk(message, 'last'))
      this.#steps.add([message])
    } else if (record.type === 'tool_end') this.#addWhole(record.message)
    else if (record.type === 'messages') this.#steps.add(record.messages)
    else if (record.type === 'update') this.#steps.set(record.channels)
    else if (record.type === 'interrupt') this.#ask(record.interrupt)
    else if (record.type === 'step') this.#steps.close(record.node, record.next ?? this.#nextAfter(record.node), 'loop')
  }

  #addWhole(message: Message): void {
    // Made once: a tool's result may be large.
    const json = JSON.stringify(message)
    this.#frames.append(Kind.messages, 'messages', wholeJson(message, json), shortWhole(message))
    this.#steps.add([message], [json])
  }

  #ask(interrupt: Interrupt): void {
    this.#asks = true
    this.#steps.ask(interrupt)
  }

  /** Nodes that would go on after a step of this one. */
  #nextAfter(node: string): string[] {
    // The step is not over before it has its answers.
    if (this.#asks) return [node]
    if (node === 'tools') return ['agent']
    return this.#journal.hasOpenCalls ? ['tools'] : []
  }

  // ------------------------------------------------------------------------------------------------ the end

  /** `wasOpen`: it was the thread's turn. */
  close(ending: RunEnd, wasOpen: boolean): Settlement {
    if (this.#steps.hasBegun) this.#closeState(ending)
    else if (ending.failure) this.#failToBegin(ending.failure)
    this.#tellFailure(ending)
    return this.#settlementOf(ending, wasOpen)
  }

  /** The same when the store has refused what the run had written: its last state may not be there. */
  refuse(): Settlement {
    this.#tellFailure(REFUSED)
    return { ...this.#settlementOf(REFUSED, true), final_checkpoint_id: null }
  }

  /** The same when that has thrown: of what the agent has told nothing is looked at again. */
  closeBroken(ending: RunEnd, wasOpen: boolean): Settlement {
    this.#tellFailure(ending)
    return { ...this.#rowOf(ending, wasOpen), ...this.#journal.totals }
  }

  #tellFailure({ failure }: RunEnd): void {
    if (failure) this.#frames.append(Kind.error, 'error', errorJson(failure.kind, failure.message))
  }

  /**
   * Its state could not be read: there is nothing to go on from, and nothing to add to. What the human said is kept as an event
   * all the same, before the failure [contract 3.5, 4.3].
   */
  #failToBegin({ kind, message }: NonNullable<RunEnd['failure']>): void {
    this.#journal.hear(lastHuman(inputOf(this.#run).messages), this.#run.follow_up_to_run_id)
    this.#journal.fail(kind, message)
  }

  /** Leaves a state that the next run can go on from: whatever was broken off is made whole, or undone. */
  #closeState(ending: RunEnd): void {
    if (ending.rollback) this.#undo()
    else if (ending !== ASKING) this.#keepBroken(ending)
    if (ending.status === 'success' || ending.status === 'interrupted') this.#giveTitle()
    if (ending.failure) this.#journal.fail(ending.failure.kind, ending.failure.message)
    else this.#journal.end(ending.status)
  }

  #undo(): void {
    this.#journal.breakOff('interrupted')
    this.#steps.rollBack()
  }

  /**
   * Keeps the part of an answer that came, valid for every model server: fragments of calls are marked as invalid, calls without
   * a result are answered. Otherwise every later run of the thread would be refused.
   */
  #keepBroken(ending: RunEnd): void {
    const reason = ending.status === 'success' ? 'stop' : ending.status
    for (const message of this.#journal.breakOff(reason)) this.#addBroken(message)
    this.#steps.unask()
    if (this.#steps.state.hasFresh) this.#steps.close('agent', [], 'loop')
  }

  #addBroken(message: Message): void {
    if (message.type !== 'ai') {
      this.#addWhole(message)
      return
    }
    // Its deltas went out before; what is missing is that no more will come.
    this.#frames.append(Kind.messages, 'messages', lastChunkJson(message), shortChunk(message, 'last'))
    this.#steps.add([message])
  }

  #giveTitle(): void {
    const { title } = this.#options
    const { state } = this.#steps
    if (!title.enabled || displayName(state.channel('title')) !== null) return
    const made = titleOf(state.messages(), title)
    if (made === null) return
    this.#steps.set({ title: made })
    // A run that waits for its user goes on where it was.
    this.#steps.close('title', this.#asks ? this.#steps.next : [], 'loop')
  }

  /** `wasOpen`: it was the thread's turn, so that the thread ends as the run does; a run that waited leaves the thread alone. */
  #settlementOf(ending: RunEnd, wasOpen: boolean): Settlement {
    return {
      ...this.#rowOf(ending, wasOpen),
      title: displayName(this.#steps.state.channel('title')),
      // Last: members behind a spread are added one by one, which costs more than all the rest of an end.
      ...this.#journal.totals
    }
  }

  #rowOf(ending: RunEnd, wasOpen: boolean): Omit<Settlement, keyof RunTotals> {
    const run = this.#run
    return {
      run_id: run.run_id,
      thread_id: run.thread_id,
      status: ending.status,
      thread_status: wasOpen ? threadStatusAfter(ending) : null,
      title: null,
      error: ending.error,
      stop_reason: ending.stopReason,
      model_name: this.#journal.modelName,
      last_cursor: this.#frames.lastCursor,
      final_checkpoint_id: this.#steps.checkpointId,
      first_human_message: this.#journal.firstHumanMessage,
      last_ai_message: this.#journal.lastAiMessage,
      now: timestamp()
    }
  }

  /** How the run stands; `before`: the state that it goes on from, if it has not begun. */
  snapshot(before: string | null): Snapshot {
    const { hasBegun, state } = this.#steps
    const values = hasBegun ? state.json() : before
    const { epoch, head } = this.#frames
    return snapshotOf(this.#run, { values, partial: this.#journal.messages.chunks(), epoch, n: head - 1 })
  }
}
