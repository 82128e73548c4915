// Run events in memory: the durable log of a thread, as long as the process lives.
import { isVisible, type Owner } from '../../scope.ts'
import type { RunEvent } from '../../types.ts'
import { markedMetadata, messageIdOf } from '../event.ts'
import { Refused } from '../refused.ts'
import type { EventReads, OpOf, SeqPage } from '../store.ts'
import { type ThreadOwned, copyOf, firstNotBelow, type Noun } from './rows.ts'
import type { ThreadRows } from './threads.ts'
import type { Undo } from './undo.ts'

/** A record and its position within the run, which is not for readers. */
interface Row {
  readonly event: RunEvent
  readonly k: number
}

/** Rows of one run, each list ascending by seq. */
interface RunRowsOf {
  readonly all: Row[]
  readonly messages: Row[]
  readonly byK: Map<number, Row>
}

/** The log of one thread, with the lists that its reads walk. */
class ThreadLog {
  readonly messages: Row[] = []
  readonly byRun = new Map<string, RunRowsOf>()
  readonly byMessageId = new Map<string, Row[]>()
  /** A counter, because the newest seq + 1 would give a number again after a delete [Store 5]. */
  nextSeq: number

  constructor(nextSeq = 1) {
    this.nextSeq = nextSeq
  }

  ofRun(runId: string, undo: Undo): RunRowsOf {
    const found = this.byRun.get(runId)
    if (found) return found
    const rows: RunRowsOf = { all: [], messages: [], byK: new Map() }
    undo.set(this.byRun, runId, rows)
    return rows
  }

  moveTo(nextSeq: number, undo: Undo): void {
    const before = this.nextSeq
    this.nextSeq = nextSeq
    undo.add(() => {
      this.nextSeq = before
    })
  }

  /** A row that is not there yet, newer than all that are. One step back for all of it: this is done for every event. */
  add(row: Row, undo: Undo): void {
    const { event, k } = row
    const rows = this.ofRun(event.run_id, undo)
    const lists = [rows.all]
    if (event.category === 'message') lists.push(rows.messages, this.messages, ...this.#sayingTheSame(event, undo))
    for (const list of lists) list.push(row)
    rows.byK.set(k, row)
    undo.add(() => {
      for (const list of lists) list.pop()
      rows.byK.delete(k)
    })
  }

  /** The list of rows with the message of this one; none for a message without an id. */
  #sayingTheSame(event: RunEvent, undo: Undo): Row[][] {
    const id = messageIdOf(event)
    if (id === null) return []
    const found = this.byMessageId.get(id)
    if (found) return [found]
    const rows: Row[] = []
    undo.set(this.byMessageId, id, rows)
    return [rows]
  }
}

/** One page of an ascending list [contract 4.4]. Without `after` the last rows count, so it is walked backwards. */
function pageOf(rows: readonly Row[], { limit, before, after }: SeqPage, owner: Owner): RunEvent[] {
  const from = after === undefined ? 0 : firstNotBelow(rows, ({ event }) => event.seq <= after)
  const to = before === undefined ? rows.length : firstNotBelow(rows, ({ event }) => event.seq < before)
  const backwards = after === undefined
  const page: RunEvent[] = []
  for (let step = 0; step < to - from && page.length < limit; step++) {
    const { event } = rows[backwards ? to - 1 - step : from + step]!
    if (isVisible(event, owner)) page.push(event)
  }
  return copyOf(backwards ? page.reverse() : page)
}

function eventReads(logs: ReadonlyMap<string, ThreadLog>, threads: ThreadRows): EventReads {
  return {
    async listMessages(threadId, page, owner) {
      return pageOf(logs.get(threadId)?.messages ?? [], page, owner)
    },
    async listMessagesByRun(threadId, runId, page, owner) {
      return pageOf(logs.get(threadId)?.byRun.get(runId)?.messages ?? [], page, owner)
    },
    async listEvents(threadId, runId, { types, after, limit }, owner) {
      const rows = logs.get(threadId)?.byRun.get(runId)?.all ?? []
      const wanted = types && new Set(types)
      const page: RunEvent[] = []
      for (let at = firstNotBelow(rows, ({ event }) => event.seq <= (after ?? 0)); at < rows.length; at++) {
        if (page.length >= limit) break
        const { event } = rows[at]!
        if (isVisible(event, owner) && (!wanted || wanted.has(event.event_type))) page.push(event)
      }
      return copyOf(page)
    },
    async nextSeq(threadId) {
      return threads.get(threadId) ? (logs.get(threadId)?.nextSeq ?? 1) : null
    },
    async lastK(threadId, runId) {
      return logs.get(threadId)?.byRun.get(runId)?.all.at(-1)?.k ?? -1
    },
    async runsOfMessages(threadId, messageIds, owner) {
      const found = new Map<string, { run_id: string; event_type: string }>()
      for (const id of messageIds) {
        const rows = logs.get(threadId)?.byMessageId.get(id) ?? []
        // A message that several runs recorded belongs to the newest of them.
        const row = rows.findLast(({ event }) => isVisible(event, owner))
        if (row) found.set(id, { run_id: row.event.run_id, event_type: row.event.event_type })
      }
      return found
    }
  }
}

type EventOps = 'events.append' | 'seq.move'

export function memoryEvents(threads: ThreadRows): Noun<EventReads, EventOps> & ThreadOwned {
  const logs = new Map<string, ThreadLog>()

  const logOf = (threadId: string, undo: Undo): ThreadLog => {
    threads.require(threadId)
    const found = logs.get(threadId)
    if (found) return found
    const log = new ThreadLog()
    undo.set(logs, threadId, log)
    return log
  }

  const append = ({ thread_id, run_id, user_id, events }: OpOf<'events.append'>, undo: Undo): number => {
    const log = logOf(thread_id, undo)
    const { byK } = log.ofRun(run_id, undo)
    let seq = log.nextSeq
    let first: number | null = null
    for (const given of events) {
      const { k, event_type, category, content, created_at } = given
      const before = byK.get(k)
      // The same record handed over again, after a crash or a refused batch: what is stored stays.
      if (before) {
        first ??= before.event.seq
        continue
      }
      first ??= seq
      const metadata = markedMetadata(given)
      // Every field by its name: this is done for every event, and a rest of them costs more than all.
      const event = { thread_id, run_id, user_id, event_type, category, content, metadata, created_at, seq: seq++ }
      log.add({ event, k }, undo)
    }
    log.moveTo(seq, undo)
    return first ?? seq
  }

  const move = ({ thread_id, from, to }: OpOf<'seq.move'>, undo: Undo): null => {
    const log = logOf(thread_id, undo)
    if (log.nextSeq !== from) throw new Refused(`the next seq of thread ${thread_id} is ${log.nextSeq} and not ${from}`)
    log.moveTo(to, undo)
    return null
  }

  return {
    reads: eventReads(logs, threads),
    writes: { 'events.append': append, 'seq.move': move },
    forget: (threadId, undo) => undo.delete(logs, threadId)
  }
}
