// Reads of events stored outside the database: each first asks the database how far the thread is committed.
import type { RunEvent } from '../../types.ts'
import type { EventQuery, EventReads, EventRecord, EventStore, SeqPage, Store } from '../store.ts'

export function eventReads(database: Store, events: EventStore): EventReads {
  const nextSeq = (threadId: string) => database.events.nextSeq(threadId)

  /** Everything of the thread that is committed now and visible to the owner. */
  const committed = async (threadId: string, owner: string | null): Promise<EventQuery | null> => {
    const before = await nextSeq(threadId)
    return before === null || before <= 1 ? null : { threadId, owner, after: 0, before }
  }
  const messages = async (threadId: string, page: SeqPage, owner: string | null, scope: { runId?: string }) => {
    const all = await committed(threadId, owner)
    if (!all) return []
    const before = Math.min(all.before, page.before ?? all.before)
    const query: EventQuery = { ...all, ...scope, category: 'message', after: page.after ?? 0, before }
    const records = await events.select(query, page.limit, page.after === undefined ? 'last' : 'first')
    return records.map(withoutK)
  }

  return {
    nextSeq,
    async listMessages(threadId, page, user) {
      return messages(threadId, page, user, {})
    },
    async listMessagesByRun(threadId, runId, page, user) {
      return messages(threadId, page, user, { runId })
    },
    async listEvents(threadId, runId, { types, after, limit }, user) {
      const all = await committed(threadId, user)
      if (!all) return []
      const query: EventQuery = { ...all, runId, after: after ?? 0, ...(types && { types }) }
      return (await events.select(query, limit, 'first')).map(withoutK)
    },
    async lastK(threadId, runId) {
      const all = await committed(threadId, null)
      const [record] = all ? await events.select({ ...all, runId }, 1, 'last') : []
      return record?.k ?? -1
    },
    async runsOfMessages(threadId, messageIds, user) {
      const all = await committed(threadId, user)
      if (!all || messageIds.length === 0) return new Map()
      const query: EventQuery = { ...all, category: 'message', messageIds }
      const records = await events.select(query, Number.MAX_SAFE_INTEGER, 'last')
      // Ascending: the newest of several runs that recorded a message wins.
      return new Map(records.map(({ content, run_id, event_type }) => [idIn(content), { run_id, event_type }]))
    }
  }
}

function withoutK({ k: _, ...event }: EventRecord): RunEvent {
  return event
}

function idIn(content: RunEvent['content']): string {
  // Selected by `messageIds`, so it is an object with that member.
  return (content as { id: string }).id
}
