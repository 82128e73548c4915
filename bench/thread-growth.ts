// Does a turn cost more when the thread is long? A thread of a thousand turns, on SQLite.
import { statSync } from 'node:fs'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type Database from 'better-sqlite3'
import { Sqlite } from '../lib/sqlite-driver.ts'
import { loadConfig } from '../lib/config.ts'
import { startGateway } from '../lib/gateway.ts'
import { benchAgent } from './agent.ts'
import type { Options } from './options.ts'
import { median, type Row, report, short } from './report.ts'

const TURN = { deltas: 100, size: 6, rate: 0 }

function bytesOf(db: Database.Database): { checkpoints: number; frames: number } {
  const checkpoints =
    'sum(length(metadata_json) + length(next_json) + length(messages_json) + length(channels_json) + length(checkpoint_id) * 2)'
  const one = (sql: string) => db.prepare<[], { bytes: number | null }>(sql).get()?.bytes ?? 0
  return {
    checkpoints:
      one(`SELECT ${checkpoints} AS bytes FROM checkpoints`) +
      one('SELECT sum(length(json)) AS bytes FROM checkpoint_bodies'),
    frames: one('SELECT sum(length(idx) + length(data)) AS bytes FROM frames')
  }
}

export async function threadGrowth(options: Options): Promise<void> {
  const turns = options.quick ? 100 : 1000
  const home = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const config = loadConfig({ home, port: 0, env: {}, cwd: home })
  const log = { info() {}, warn() {}, error() {} }
  const gateway = await startGateway({ config, log, agent: benchAgent(async () => {}) })
  const db = new Sqlite(config.database.sqlite_path, { readonly: true })
  const rows: Row[] = []
  try {
    const call = await signedIn(gateway.url)
    // Our own server's answers.
    const { thread_id } = JSON.parse(await call('POST', '/api/threads', {})) as { thread_id: string }
    const marks = [10, 100, 1000].filter((mark) => mark <= turns)
    let before = bytesOf(db)
    for (let turn = 1; turn <= turns; turn++) {
      const isMeasured = marks.includes(turn + 1) || marks.includes(turn)
      if (isMeasured) await settled()
      if (marks.includes(turn)) before = bytesOf(db)
      const input = { messages: [{ role: 'user', content: JSON.stringify(TURN) }] }
      const began = performance.now()
      await call('POST', `/api/threads/${thread_id}/runs/wait`, { input })
      const turnMs = performance.now() - began
      if (marks.includes(turn)) rows.push(await measured(turn, turnMs, before))
    }

    async function measured(
      turn: number,
      turnMs: number,
      earlier: { checkpoints: number; frames: number }
    ): Promise<Row> {
      await settled()
      const after = bytesOf(db)
      const times: number[] = []
      let size = 0
      for (let i = 0; i < 9; i++) {
        const began = performance.now()
        size = (await call('GET', `/api/threads/${thread_id}/state`)).length
        times.push(performance.now() - began)
      }
      const stateMs = median(times).mid
      return {
        turn,
        'checkpoint bytes': after.checkpoints - earlier.checkpoints,
        'frame bytes': after.frames - earlier.frames,
        'turn ms': short(turnMs),
        'state KB': short(size / 1000),
        'GET state ms': short(stateMs),
        'state us/KB': short((stateMs * 1000) / (size / 1000))
      }
    }
    const file = statSync(config.database.sqlite_path).size
    report('Does a turn cost more when the thread is long?', { turns, ...TURN, fileMB: short(file / 1e6) }, rows)
  } finally {
    db.close()
    await gateway.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

/** Until the frames of the last run are compressed, as they stay: that waits for a moment in which no run ends. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1500))
}

async function signedIn(url: string): Promise<(method: string, path: string, body?: object) => Promise<string>> {
  const json = { 'content-type': 'application/json' }
  const account = JSON.stringify({ email: 'bench@example.com', password: 'correct-horse-42' })
  const answer = await fetch(`${url}/api/v1/auth/initialize`, { method: 'POST', headers: json, body: account })
  const cookies = answer.headers.getSetCookie().map((line) => line.split(';')[0]!)
  const csrf = cookies.find((cookie) => cookie.startsWith('csrf_token='))?.slice('csrf_token='.length) ?? ''
  const headers = { ...json, cookie: cookies.join('; '), 'x-csrf-token': csrf }
  return async (method, path, body) =>
    (await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })).text()
}
