// What is salvaged of a run whose records the store has refused for good.
import type { Run } from '../../base/types.ts'
import type { Op, Store } from '../../store/store.ts'
import type { Committer } from '../commit/committer.ts'

interface LogDeps {
  readonly store: Pick<Store, 'runs'>
  readonly log: { error(fields: object, text: string): void }
}

/** The refused records, in the log of the process: nowhere else are they kept. */
export async function logRefused(
  run: Run,
  refused: string,
  ops: readonly Op[],
  { store, log }: LogDeps
): Promise<void> {
  const { run_id, thread_id } = run
  const isDeleted = await store.runs.get(run_id, null).then(
    (found) => found === null,
    () => false
  )
  // What a user has deleted while the run went on is kept nowhere.
  if (isDeleted) return
  log.error({ run_id, thread_id, refused, records: ops.map(loggable) }, 'the store refuses the records of a run')
}

/** A refused op for the log, with frames as text. */
function loggable(op: Op): object {
  if (op.name !== 'frames.append') return op
  const { first, last, data } = op.segment
  return { ...op, segment: { first, last, data: Buffer.from(data).toString('utf8') } }
}

/** Writes the first of these that the store takes, or none. */
export async function writeFirst(
  attempts: readonly (readonly Op[])[],
  { committer, owner }: { readonly committer: Pick<Committer, 'writeAll'>; readonly owner?: string | undefined }
): Promise<void> {
  for (const ops of attempts) {
    const isWritten = await committer.writeAll(ops, 'endless', owner).then(
      () => true,
      () => false
    )
    if (isWritten) break
  }
}
