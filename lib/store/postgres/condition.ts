// The condition of a PostgreSQL server, for `colloquy doctor`: its version, who waits for locks, and the homes of the processes on the
// database.
import type { Condition } from '../condition.ts'
import { PgConnection } from './pg-connection.ts'

const LOCKS = `SELECT current_setting('server_version') AS version,
  (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock') AS waiting`
const HOMES = `SELECT DISTINCT identity->>'home' AS home FROM writers
  WHERE lease_until > clock_timestamp() AND identity->>'home' IS NOT NULL`

/** @throws Error when it does not answer */
export async function postgresCondition(url: string): Promise<Condition> {
  const connection = await PgConnection.open(url)
  try {
    const [row] = await connection.rows<{ version: string; waiting: number }>(LOCKS)
    const homes = await connection.rows<{ home: string }>(HOMES)
    return { engine: `PostgreSQL ${row!.version}`, waiting: row!.waiting, homes: homes.map(({ home }) => home) }
  } finally {
    await connection.close()
  }
}
