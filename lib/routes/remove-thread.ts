// Deletes threads: runs are cancelled first, files are deleted last.
import { fail } from '../base/errors.ts'
import { Removals } from '../jobs/removals.ts'
import { refuseHeld } from '../thread/holds.ts'
import type { Op } from '../store/store.ts'
import type { JsonObject } from '../base/types.ts'
import type { Services } from './services.ts'

/** How long to wait for cancelled runs to be recorded, in ms [design 5]. */
const DELETE_WAIT_MS = 5000
const PAGE = 100

type RemovalServices = Pick<Services, 'store' | 'writeAll' | 'registry' | 'removeFiles' | 'webhooks'>

/** The claim of a removal that is a job: ended with it, and refused while a run is in flight. */
interface RemovalClaim {
  readonly finish: Op
  readonly owner: string
}

/** Deletes one thread of the caller. True: it had files. @throws Failure when there is no such thread, or it is held */
export async function removeThread(
  services: RemovalServices,
  threadId: string,
  userId: string | null,
  claim: RemovalClaim | null = null
): Promise<boolean> {
  const { store, writeAll, registry, removeFiles, webhooks } = services
  // Before its runs are ended.
  await refuseHeld(store, 'thread', threadId)
  if (!claim) await registry.ends.cancelThread(threadId, DELETE_WAIT_MS)
  const owner = await store.threads.ownerOf(threadId)
  const kept = await webhooks.kept(threadId)
  // A crash from here on leaves no files behind.
  const files = Removals.files(threadId, owner === undefined ? userId : owner)
  const removal: Op = { name: 'thread.remove', thread_id: threadId, user: userId, ifIdle: claim !== null, files }
  const results = await writeAll([...(claim ? [claim.finish] : []), ...kept, removal], claim?.owner)
  if (results.at(-1) !== true) throw fail('thread_not_found', { id: threadId })
  registry.threadChanged(owner ?? userId, threadId)
  // Cancels runs that were admitted meanwhile: agents must stop before files are deleted.
  await registry.ends.cancelThread(threadId, DELETE_WAIT_MS)
  // Without a record of the thread, only the caller's files are deleted.
  const hadFiles = await removeFiles(threadId, files.user_id)
  // What stays would find nothing to do.
  await writeAll([{ name: 'job.remove', kind: files.kind, key: files.key, thread_id: null }]).catch(() => {})
  return hadFiles
}

/** Ids of the caller's own threads with this metadata. */
export async function ownThreads(
  { store }: Pick<Services, 'store'>,
  metadata: JsonObject,
  userId: string
): Promise<string[]> {
  const ids: string[] = []
  for (let offset = 0; ; offset += PAGE) {
    const { threads } = await store.threads.search({ metadata, limit: PAGE, offset }, userId)
    for (const { thread_id, user_id } of threads) if (user_id === userId) ids.push(thread_id)
    if (threads.length < PAGE) return ids
  }
}
