// Closes the records of a run, whatever has ended it: readers see the end, the history has it, and the state is one that
// the next run can start from.
import { lastChunkJson, shortChunk, shortWhole, wholeJson } from '../conversation/wire.ts'
import type { NewJob, Op, Settlement } from '../store/store.ts'
import { displayName, type TitleOptions, titleOf } from '../thread/title.ts'
import { type AiMessage, type Message, NO_TOTALS, type Run, type RunTotals, timestamp } from '../types.ts'
import { Kind } from './log/filter.ts'
import type { Journal } from './log/journal.ts'
import type { KeptState } from './log/kept-state.ts'
import type { RunLog } from './log/run-log.ts'
import type { StateBuilder } from './log/state-builder.ts'
import { ASKING, type RunEnd, threadStatusAfter } from './run-end.ts'
import { feedbackKeysOf, graceOf, inputOf, lastHuman, webhookOf } from './run-kwargs.ts'

/** Frames for readers, events for the history, and the state. */
export interface RunRecords {
  readonly run: Run
  readonly log: RunLog
  readonly journal: Journal
  readonly state: StateBuilder
  /** Used instead of the state when the agent keeps its own. */
  readonly kept: KeptState | null
}

/** A reply whose deltas were sent: only its completion is missing. */
export function addReply({ log, state }: RunRecords, message: AiMessage): void {
  log.append(Kind.messages, 'messages', lastChunkJson(message), shortChunk(message, 'last'))
  state.add([message])
}

export function addWhole({ log, state }: RunRecords, message: Message): void {
  // Encoded once: a tool's result may be large.
  const json = JSON.stringify(message)
  log.append(Kind.messages, 'messages', wholeJson(message, json), shortWhole(message))
  state.add([message], [json])
}

/** Returns further ops to write. `asks`: the run waits for its user. */
export function closeRecords(records: RunRecords, end: RunEnd, asks: boolean, title: TitleOptions): Op[] {
  const ops = records.kept ? closeKept(records, records.kept, end) : []
  if (!records.kept && records.state.hasBegun) closeState(records, end, asks, title)
  else if (!records.kept && end.failure) failToBegin(records, end.failure)
  showFailure(records.log, end)
  if (!end.failure && !end.rollback) showFeedback(records)
  return ops
}

export function showFailure(log: RunLog, { failure }: RunEnd): void {
  if (!failure) return
  const { kind, message } = failure
  log.append(Kind.error, 'error', JSON.stringify({ error: kind, name: kind, message }))
}

function showFeedback({ run, log }: RunRecords): void {
  const keys = feedbackKeysOf(run)
  if (keys.length === 0) return
  const path = `/api/threads/${run.thread_id}/runs/${run.run_id}/feedback`
  const places = keys.map((key) => [key, `${path}?key=${encodeURIComponent(key)}`])
  log.append(Kind.feedback, 'feedback', JSON.stringify(Object.fromEntries(places)))
}

/**
 * Its state could not be read: nothing to start from or add to. The user's message is still kept as an event, before
 * the failure [contract 3.5, 4.3].
 */
function failToBegin({ run, journal }: RunRecords, { kind, message }: NonNullable<RunEnd['failure']>): void {
  journal.hear(lastHuman(inputOf(run).messages), run.follow_up_to_run_id)
  journal.fail(kind, message)
}

/** Leaves a state the next run can start from: whatever was broken off is completed or undone. */
function closeState(records: RunRecords, end: RunEnd, asks: boolean, title: TitleOptions): void {
  const { journal, state } = records
  if (end.rollback) {
    journal.breakOff('interrupted')
    state.rollBack()
  } else {
    if (end === ASKING) keepQuestion(records)
    else keepBroken(records, end)
    giveTitle(state, asks, title)
  }
  recordEnd(journal, end)
}

function recordEnd(journal: Journal, { status, failure }: RunEnd): void {
  if (failure) journal.fail(failure.kind, failure.message)
  else journal.end(status)
}

/** The agent keeps the state: unwritten parts are dropped, and a rollback takes back all of it. */
function closeKept({ run, journal }: RunRecords, kept: KeptState, end: RunEnd): Op[] {
  const { run_id, thread_id } = run
  if (kept.hasBegun && !journal.hasBegun) journal.begin(null, run.follow_up_to_run_id)
  journal.breakOff(end.status)
  recordEnd(journal, end)
  return end.rollback ? [{ name: 'graph.removeRun', thread_id, run_id }] : []
}

/**
 * Keeps a partial answer in a form every model server accepts: call fragments become invalid calls, open calls get a
 * result. Otherwise every later run of the thread would be refused.
 */
function keepBroken(records: RunRecords, { status }: RunEnd): void {
  const { journal, state } = records
  for (const message of journal.breakOff(status === 'success' ? 'stop' : status)) {
    if (message.type === 'ai') addReply(records, message)
    else addWhole(records, message)
  }
  state.unask()
  if (state.state.hasFresh) state.close('agent', [], 'loop')
}

/** The agent may have ended right behind its question: without a checkpoint of its own nobody would see or answer it. */
function keepQuestion(records: RunRecords): void {
  const { journal, state } = records
  for (const message of journal.breakOffMessages('stop')) addReply(records, message)
  if (state.state.hasFresh || state.next.length === 0) state.close('agent', ['agent'], 'loop')
}

function giveTitle(builder: StateBuilder, asks: boolean, title: TitleOptions): void {
  const { state } = builder
  if (!title.enabled || displayName(state.channel('title')) !== null) return
  const made = titleOf(state.eachMessage(), title)
  if (made === null) return
  builder.set({ title: made })
  // A run that waits for its user continues where it was.
  builder.close('title', asks ? builder.next : [], 'loop')
}

/** The run's row at its end. `title` null: the records could not be closed, and the thread keeps its title. */
export function settlementOf(
  { run, log, journal, state, kept }: RunRecords,
  end: RunEnd,
  wasOpen: boolean,
  title: TitleOptions | null
): Settlement {
  const known = {
    title: title && (kept ? kept.title(title) : displayName(state.state.channel('title'))),
    model_name: journal.modelName,
    last_cursor: log.lastCursor,
    final_checkpoint_id: (kept ?? state).checkpointId,
    first_human_message: journal.firstHumanMessage,
    last_ai_message: journal.lastAiMessage
  }
  return rowOf(run, end, wasOpen, known, journal.totals)
}

/** The end of a run that cannot be read: its log stops where it is. */
export function bareEnd(run: Run, end: RunEnd): Op {
  const { last_cursor, final_checkpoint_id } = run
  const nothing = { title: null, model_name: null, first_human_message: null, last_ai_message: null }
  const known = { ...nothing, last_cursor, final_checkpoint_id }
  return { name: 'run.settle', ...rowOf(run, end, run.status !== 'pending', known, NO_TOTALS) }
}

type Known = 'title' | 'model_name' | 'last_cursor' | 'final_checkpoint_id' | 'first_human_message' | 'last_ai_message'

/** A run that was only queued leaves the thread alone: another one may be running. */
function rowOf(run: Run, end: RunEnd, wasOpen: boolean, known: Pick<Settlement, Known>, totals: RunTotals): Settlement {
  const { run_id, thread_id } = run
  return {
    run_id,
    thread_id,
    status: end.status,
    thread_status: wasOpen ? threadStatusAfter(end) : null,
    title: known.title,
    error: end.error,
    stop_reason: end.stopReason,
    model_name: known.model_name,
    last_cursor: known.last_cursor,
    final_checkpoint_id: known.final_checkpoint_id,
    first_human_message: known.first_human_message,
    last_ai_message: known.last_ai_message,
    now: timestamp(),
    jobs: jobsAfter(run, end),
    // The only spread, and last: members behind one are added one by one, which costs more than the rest of the end.
    ...totals
  }
}

/** Metadata that is sent of a run that is gone, in characters. */
const METADATA_MAX = 8_000
const ERROR_MAX = 8_000
const NO_JOBS: readonly NewJob[] = []

/** Its webhook, and the removal of a thread that was made for it. */
function jobsAfter(run: Run, { status, error }: RunEnd): readonly NewJob[] {
  const url = webhookOf(run)
  const graceMs = graceOf(run)
  if (url === null && graceMs === null) return NO_JOBS
  const { run_id, thread_id, user_id, assistant_id, multitask_strategy, created_at } = run
  const jobs: NewJob[] = []
  if (url !== null) {
    const metadata = JSON.stringify(run.metadata).length <= METADATA_MAX ? run.metadata : {}
    const ended = { run_id, thread_id, assistant_id, status, metadata, multitask_strategy, created_at }
    const short = { ...ended, updated_at: timestamp(), error: error?.slice(0, ERROR_MAX) ?? null }
    const payload = JSON.stringify({ url, run: short })
    jobs.push({ kind: 'webhook', key: run_id, user_id, thread_id, due: 0, payload })
  }
  if (graceMs !== null) jobs.push({ kind: 'removal', key: thread_id, user_id, thread_id, due: graceMs, payload: '{}' })
  return jobs
}

export function endedRow(run: Run, settlement: Settlement): Run {
  const { status, error, stop_reason, last_cursor, final_checkpoint_id, now } = settlement
  return { ...run, status, error, stop_reason, last_cursor, final_checkpoint_id, updated_at: now }
}
