// Checkpoints in SQLite: which bodies a state consists of, and the bodies, each kept once a version.
import type Database from 'better-sqlite3'
import type { JsonObject } from '../../types.ts'
import { Refused } from '../refused.ts'
import { type CheckpointRow, COLUMNS, toHead } from '../sql/checkpoints.ts'
import { parseJson } from '../sql/json.ts'
import type { CheckpointHead, CheckpointReads, CheckpointWrite, OpOf, StateUpdate, StoredCheckpoint } from '../store.ts'
import type { Writers } from './rows.ts'

/** Finds one checkpoint: by its id, or the newest of the thread. */
function finder(db: Database.Database): (threadId: string, checkpointId: string | null) => CheckpointHead | null {
  const byId = db.prepare<[string, string], CheckpointRow>(
    `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = ? AND checkpoint_id = ?`
  )
  const newest = db.prepare<[string], CheckpointRow>(
    `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC LIMIT 1`
  )
  return (threadId, checkpointId) => {
    const row = checkpointId === null ? newest.get(threadId) : byId.get(threadId, checkpointId)
    return row ? toHead(row) : null
  }
}

function nextBodyFinder(db: Database.Database): (threadId: string) => number {
  const next = db.prepare<[string], { no: number | null }>(
    'SELECT max(no) + 1 AS no FROM checkpoint_bodies WHERE thread_id = ?'
  )
  return (threadId) => next.get(threadId)?.no ?? 0
}

export function checkpointReads(db: Database.Database): CheckpointReads {
  const find = finder(db)
  const nextBody = nextBodyFinder(db)
  const range = db.prepare<[string, number, number], { no: number; json: string }>(
    'SELECT no, json FROM checkpoint_bodies WHERE thread_id = ? AND no BETWEEN ? AND ? ORDER BY no'
  )
  const one = db.prepare<[string, number], { json: string }>(
    'SELECT json FROM checkpoint_bodies WHERE thread_id = ? AND no = ?'
  )
  const newer = db.prepare<[string, number], CheckpointRow>(
    `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC LIMIT ?`
  )
  const older = db.prepare<[string, string, number], CheckpointRow>(
    `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = ? AND checkpoint_id < ? ORDER BY checkpoint_id DESC LIMIT ?`
  )

  return {
    async load(threadId, checkpointId, channels) {
      const head = find(threadId, checkpointId)
      if (!head) return null
      const wanted = (name: string) => channels === undefined || channels.includes(name)
      const messageBodies = wanted('messages')
        ? head.messages.flatMap(([from, to]) => range.all(threadId, from, to))
        : []
      const channelBodies = Object.entries(head.channels)
        .filter(([name]) => wanted(name))
        .map(([name, no]) => ({ name, no, json: one.get(threadId, no)!.json }))
      return { ...head, messageBodies, channelBodies, nextBody: nextBody(threadId) } satisfies StoredCheckpoint
    },
    async list(threadId, { limit, before }) {
      const rows = before === undefined ? newer.all(threadId, limit) : older.all(threadId, before, limit)
      return rows.map(toHead)
    }
  }
}

/** Writes one checkpoint with its new bodies. Shared with the creation of threads, which begin with an empty one. */
export function checkpointPut(db: Database.Database): (checkpoint: CheckpointWrite) => void {
  const insert = db.prepare(`
    INSERT INTO checkpoints (${COLUMNS})
    VALUES (@thread_id, @checkpoint_id, @parent_checkpoint_id, @run_id, @metadata_json, @next_json, @messages_json, @channels_json, @created_at)`)
  const body = db.prepare('INSERT INTO checkpoint_bodies (thread_id, no, json) VALUES (?, ?, ?)')
  return ({ bodies, metadata, next, messages, channels, ...row }) => {
    for (const { no, json } of bodies) body.run(row.thread_id, no, json)
    insert.run({
      thread_id: row.thread_id,
      checkpoint_id: row.checkpoint_id,
      parent_checkpoint_id: row.parent_checkpoint_id,
      run_id: row.run_id,
      created_at: row.created_at,
      metadata_json: JSON.stringify(metadata),
      next_json: JSON.stringify(next),
      messages_json: JSON.stringify(messages),
      channels_json: JSON.stringify(channels)
    })
  }
}

/** The values of an update, for the metadata of its checkpoint [contract 2.2]. */
function writesOf({ messages, channels }: OpOf<'state.update'>): JsonObject {
  const values = Object.fromEntries(Object.entries(channels).map(([name, json]) => [name, parseJson(json)]))
  return messages === null ? values : { messages: messages.map((json) => parseJson(json)), ...values }
}

type CheckpointOps = 'checkpoint.put' | 'state.update'

export function checkpointWrites(db: Database.Database): Writers<CheckpointOps> {
  const put = checkpointPut(db)
  const find = finder(db)
  const nextBody = nextBodyFinder(db)
  const threadExists = db.prepare('SELECT 1 FROM threads_meta WHERE thread_id = ?')
  const inFlight = db.prepare("SELECT 1 FROM runs WHERE thread_id = ? AND status IN ('pending', 'running') LIMIT 1")
  const rename = db.prepare(
    'UPDATE threads_meta SET display_name = coalesce(?, display_name), updated_at = ? WHERE thread_id = ?'
  )

  return {
    'checkpoint.put': ({ name: _, ...checkpoint }) => {
      if (!threadExists.get(checkpoint.thread_id)) throw new Refused(`thread ${checkpoint.thread_id} is gone`)
      put(checkpoint)
      return null
    },
    'state.update': (update): StateUpdate => {
      const { thread_id, base, checkpoint_id, now, messages, channels, as_node, title } = update
      if (!threadExists.get(thread_id)) throw new Refused(`thread ${thread_id} is gone`)
      if (inFlight.get(thread_id)) return { outcome: 'busy' }
      const parent = find(thread_id, base)
      if (!parent) return { outcome: 'checkpoint_missing' }

      let no = nextBody(thread_id)
      const first = no
      const bodies = (messages ?? []).map((json) => ({ no: no++, json }))
      const changed = Object.entries(channels).map(([channel, json]) => ({ channel, no: no++, json }))
      const step = typeof parent.metadata.step === 'number' ? parent.metadata.step + 1 : 0
      const metadata: JsonObject = { source: 'update', step, parents: {}, updated_at: now }
      if (as_node !== null) metadata.writes = { [as_node]: writesOf(update) }
      const checkpoint: CheckpointWrite = {
        thread_id,
        checkpoint_id,
        parent_checkpoint_id: parent.checkpoint_id,
        run_id: null,
        created_at: now,
        metadata,
        next: [],
        messages: messages === null ? parent.messages : bodies.length ? [[first, first + bodies.length - 1]] : [],
        channels: { ...parent.channels, ...Object.fromEntries(changed.map((one) => [one.channel, one.no])) },
        bodies: [...bodies, ...changed.map((one) => ({ no: one.no, json: one.json }))]
      }
      put(checkpoint)
      rename.run(title, now, thread_id)
      const { bodies: _, ...head } = checkpoint
      return { outcome: 'written', checkpoint: head }
    }
  }
}
