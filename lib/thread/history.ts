// Reads a page of a thread's history with all values. Entries share most messages, so those of the newest are read once and
// reused; only edited or removed ones are read in addition.
import type { CheckpointReads, HistoryPage, StoredCheckpoint } from '../store/store.ts'

type MessageBody = StoredCheckpoint['messageBodies'][number]

/**
 * Newest first. The page ends before its texts would exceed `maxLength`, but has at least one entry; the next page continues
 * with `before`.
 */
export async function historyPage(
  checkpoints: CheckpointReads,
  threadId: string,
  page: HistoryPage,
  maxLength: number
): Promise<StoredCheckpoint[]> {
  const [newest, ...older] = await checkpoints.history(threadId, page)
  if (!newest) return []
  const known = new Map<number, MessageBody>()
  const learn = (bodies: readonly MessageBody[]) => {
    for (const body of bodies) known.set(body.no, body)
  }
  learn(newest.messageBodies)
  const entries = [newest]
  let left = maxLength - lengthOf(newest)
  for (const entry of older) {
    let messageBodies: readonly MessageBody[] | null = bodiesIn(entry, known)
    if (!messageBodies) {
      const stored = await checkpoints.load(threadId, entry.checkpoint_id, ['messages'])
      // The thread was deleted meanwhile.
      if (!stored) break
      messageBodies = stored.messageBodies
      learn(messageBodies)
    }
    const whole = { ...entry, messageBodies }
    left -= lengthOf(whole)
    if (left < 0) break
    entries.push(whole)
  }
  return entries
}

/** The messages of an entry; null: some are unknown. */
function bodiesIn({ messages }: StoredCheckpoint, known: ReadonlyMap<number, MessageBody>): MessageBody[] | null {
  const bodies: MessageBody[] = []
  for (const [from, to] of messages)
    for (let no = from; no <= to; no++) {
      const body = known.get(no)
      if (!body) return null
      bodies.push(body)
    }
  return bodies
}

function lengthOf({ messageBodies, channelBodies }: StoredCheckpoint): number {
  let length = 0
  for (const { json } of messageBodies) length += json.length
  for (const { json } of channelBodies) length += json.length
  return length
}
