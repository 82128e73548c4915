// Jobs changed by hand: made due now, with all their attempts, or dropped.
import type { JobKind } from '../base/types.ts'
import type { JobReads, Op } from '../store/store.ts'

export type JobChange = 'retry' | 'drop'

interface JobChanges {
  readonly jobs: Pick<JobReads, 'get'>
  /** Resolves with what the op answers. */
  readonly write: (op: Op) => Promise<unknown>
  /** The line of the audit. */
  readonly changed: (how: JobChange, job: { readonly kind: JobKind }) => Promise<void>
}

/** False: there is no such job. Whoever is at it goes on; its end does not count. */
export async function changeJob(
  { jobs, write, changed }: JobChanges,
  kind: JobKind,
  key: string,
  how: JobChange
): Promise<boolean> {
  const found = await jobs.get(kind, key)
  if (found === null) return false
  const job = { kind, key, thread_id: found.thread_id }
  const isDone = await write(how === 'retry' ? { name: 'job.change', ...job, due: 0 } : { name: 'job.remove', ...job })
  if (isDone !== true) return false
  await changed(how, { kind })
  return true
}
