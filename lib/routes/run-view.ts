// A run as sent to clients, and the one that a path names.
import { fail } from '../base/errors.ts'
import type { JsonObject, Run } from '../base/types.ts'
import type { Call } from '../http/route.ts'
import type { Services } from './services.ts'

/** A run as sent to clients. */
export function runView(run: Run): JsonObject {
  const {
    key: _,
    user_id,
    idempotency_key,
    idempotency_hash,
    last_cursor,
    final_checkpoint_id,
    first_human_message,
    last_ai_message,
    ordinal,
    attempts,
    model_name,
    ...shown
  } = run
  return { ...shown, kwargs: { input: run.kwargs.input ?? null, config: run.kwargs.config ?? null } }
}

/** The run that a path names. @throws Failure run_not_found, also for a run of another thread than the path's */
export async function runOf({ store }: Pick<Services, 'store'>, { params }: Pick<Call, 'params'>): Promise<Run> {
  const { thread_id: threadId, run_id: id } = params
  const run = await store.runs.get(id!)
  if (!run || (threadId !== undefined && run.thread_id !== threadId)) throw fail('run_not_found', { id: id! })
  return run
}
