// The run that a path names.
import { fail } from '../base/errors.ts'
import type { Call } from '../http/route.ts'
import type { Run } from '../base/types.ts'
import type { Services } from './services.ts'

/** @throws Failure run_not_found, also for a run of another thread than the path's */
export async function runOf({ store }: Pick<Services, 'store'>, { params }: Pick<Call, 'params'>): Promise<Run> {
  const { thread_id: threadId, run_id: id } = params
  const run = await store.runs.get(id!)
  if (!run || (threadId !== undefined && run.thread_id !== threadId)) throw fail('run_not_found', { id: id! })
  return run
}
