// Asks for legal holds before files are deleted, of which the store has no rows, and before runs are ended for a deletion that the store
// would refuse.
import { fail } from '../base/errors.ts'
import type { HeldScope, Store } from '../store/store.ts'

/** Whether a hold keeps the files of a user in a thread, which may have no record. */
export async function areFilesHeld(
  { holds }: Pick<Store, 'holds'>,
  threadId: string,
  userId: string
): Promise<boolean> {
  return (await holds.isHeld('thread', threadId)) || holds.isHeld('user', userId)
}

/** @throws Failure held while a hold keeps them */
export async function refuseHeldFiles(store: Pick<Store, 'holds'>, threadId: string, userId: string): Promise<void> {
  if (await areFilesHeld(store, threadId, userId)) throw fail('held')
}

/** @throws Failure held while a hold keeps it */
export async function refuseHeld({ holds }: Pick<Store, 'holds'>, of: HeldScope, id: string): Promise<void> {
  if (await holds.isHeld(of, id)) throw fail('held')
}
