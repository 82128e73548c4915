// What the agent of a run is given.
import type { AgentInput } from '../agent/runtime.ts'
import type { RunRecords } from './closing.ts'
import { contextOf, continuedBy, graphOf, recursionLimitOf, resumeOf } from './run-kwargs.ts'

/** @param recursionLimit the operator's */
export function agentInput({ run, log, journal, state }: RunRecords, recursionLimit: number): AgentInput {
  return {
    ...state.input(),
    threadId: run.thread_id,
    runId: run.run_id,
    userId: run.user_id,
    assistantId: run.assistant_id ?? 'lead_agent',
    resume: resumeOf(run),
    continues: continuedBy(run),
    context: contextOf(run),
    modelName: run.model_name,
    recursionLimit: recursionLimitOf(run, recursionLimit),
    graphId: graphOf(run),
    request: { ...run.kwargs, metadata: run.metadata },
    attempt: log.attempts,
    recordedIds: journal.recordedIds
  }
}
