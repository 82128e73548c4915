// Closes the records of a run, whatever has ended it: readers see the end, the history has it, and the state is one that
// the next run can start from.
import type { NewJob, Op, Settlement } from '../store/store.ts'
import { systemAssistantId } from '../thread/assistants.ts'
import type { TitleOptions } from '../thread/title.ts'
import { NO_TOTALS, type Run, timestamp } from '../base/types.ts'
import { Kind } from './log/frame.ts'
import type { Journal } from './log/journal.ts'
import { ModelUsages } from './log/model-usage.ts'
import type { RunLog } from './log/run-log.ts'
import { ASKING, failed, REFUSED, type RunEnd, threadStatusAfter } from './run-end.ts'
import { feedbackKeysOf, graceOf, graphOf, isEdit, webhookOf } from './run-kwargs.ts'
import type { RunState } from './run-state.ts'

/** Frames for readers, events for the history, and the state. */
export interface RunRecords {
  readonly run: Run
  readonly log: RunLog
  readonly journal: Journal
  readonly state: RunState
}

interface ErrorLog {
  error(fields: object, text: string): void
}

/** Closes the records, and makes the run's row. Never throws: what cannot be closed has failed. */
export function closed(
  records: RunRecords,
  end: RunEnd,
  wasOpen: boolean,
  title: TitleOptions,
  log: ErrorLog
): Settlement {
  return orFailed(records, wasOpen, log, () => {
    closeRecords(records, end, title)
    return settlementOf(records, end, wasOpen, title)
  })
}

/**
 * The same of a run whose records were refused: it has failed. `attempts`: what to try writing, one after the other until the store accepts
 * one: the end with the frames refused along with other records, or with later frames, or alone, because the thread may be gone.
 */
export function closeRefused(
  records: RunRecords,
  title: TitleOptions,
  log: ErrorLog
): { readonly settlement: Settlement; attempts(refused: readonly Op[], own: readonly Op[]): (readonly Op[])[] } {
  const settlement = orFailed(records, true, log, () => {
    showFailure(records.log, REFUSED)
    // Its last state may be missing.
    return { ...settlementOf(records, REFUSED, true, title), final_checkpoint_id: null }
  })
  const settle: Op = { name: 'run.settle', ...settlement }
  const attempts = (refused: readonly Op[], own: readonly Op[]) => {
    const frames = refused.filter(({ name }) => name === 'frames.append' || name === 'run.bodies')
    return [[...frames, ...own, settle], [...own, settle], [settle]]
  }
  return { settlement, attempts }
}

function orFailed(records: RunRecords, wasOpen: boolean, log: ErrorLog, close: () => Settlement): Settlement {
  try {
    return close()
  } catch (error) {
    const { run_id, thread_id } = records.run
    log.error({ err: error, run_id, thread_id }, 'the records of a run could not be closed: the run fails')
    const failure = failed(error)
    showFailure(records.log, failure)
    return settlementOf(records, failure, wasOpen, null)
  }
}

function closeRecords(records: RunRecords, end: RunEnd, title: TitleOptions): void {
  const rollback = end.rollback || (isEdit(records.run) && end.status !== 'success' && end !== ASKING)
  records.state.close(rollback === end.rollback ? end : { ...end, rollback }, title)
  showFailure(records.log, end)
  if (!end.failure && !rollback) showFeedback(records)
}

function showFailure(log: RunLog, { failure }: RunEnd): void {
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

/** The run's row at its end. `title` null: the records could not be closed, and the thread keeps its title. */
function settlementOf(
  { run, log, journal, state }: RunRecords,
  end: RunEnd,
  wasOpen: boolean,
  title: TitleOptions | null
): Settlement {
  const known = {
    title: title && state.title(title),
    model_name: journal.modelName,
    last_cursor: log.lastCursor,
    final_checkpoint_id: state.checkpointId,
    first_human_message: journal.firstHumanMessage,
    last_ai_message: journal.lastAiMessage
  }
  return rowOf(run, end, wasOpen, known, journal)
}

/** The end of a run that cannot be read: its log stops where it is. */
export function bareEnd(run: Run, end: RunEnd): Op {
  const { last_cursor, final_checkpoint_id } = run
  const nothing = { title: null, model_name: null, first_human_message: null, last_ai_message: null }
  const known = { ...nothing, last_cursor, final_checkpoint_id }
  return { name: 'run.settle', ...rowOf(run, end, run.status !== 'pending', known, NOTHING_TAKEN) }
}

type Known = 'title' | 'model_name' | 'last_cursor' | 'final_checkpoint_id' | 'first_human_message' | 'last_ai_message'

/** What a run has used. */
type Taken = Pick<Journal, 'totals' | 'usage'>
const NOTHING_TAKEN: Taken = { totals: NO_TOTALS, usage: new ModelUsages(new Map()) }

/** A run that was only queued leaves the thread alone: another one may be running. */
function rowOf(
  run: Run,
  end: RunEnd,
  wasOpen: boolean,
  known: Pick<Settlement, Known>,
  { totals, usage }: Taken
): Settlement {
  const { run_id, thread_id, user_id } = run
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
    usage: { user_id, agent: agentOf(run), models: usage.list(known.model_name) },
    jobs: jobsAfter(run, end),
    // The only spread, and last: members behind one are added one by one, which costs more than the rest of the end.
    ...totals
  }
}

/** Who answers, as usage counts it: somebody's own assistant by its id, everybody's by the name of its graph, as people know it. */
function agentOf(run: Run): string | null {
  const graph = graphOf(run)
  const isEverybodys = graph !== null && run.assistant_id === systemAssistantId(graph)
  return isEverybodys ? graph : (run.assistant_id ?? graph)
}

/** Metadata that is sent of a run that is gone, in characters. */
const METADATA_MAX = 8_000
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
    const payload = JSON.stringify({ url, run: { ...ended, updated_at: timestamp(), error } })
    jobs.push({ kind: 'webhook', key: run_id, user_id, thread_id, due: 0, payload })
  }
  if (graceMs !== null) jobs.push({ kind: 'removal', key: thread_id, user_id, thread_id, due: graceMs, payload: '{}' })
  return jobs
}

export function endedRow(run: Run, settlement: Settlement): Run {
  const { status, error, stop_reason, last_cursor, final_checkpoint_id, now } = settlement
  return { ...run, status, error, stop_reason, last_cursor, final_checkpoint_id, updated_at: now }
}
