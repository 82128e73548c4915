// A PostgreSQL database as a side of a copy.
import { Format, toSegment } from '../packing.ts'
import type { CopiedTable, CopySource, CopyTarget, Row, Value } from '../copy.ts'
import type { PartTarget } from '../copy-part.ts'
import { encodeText, type Param } from './db.ts'
import { termTexts } from './ops.ts'
import { PgConnection } from './pg-connection.ts'
import { hasTable } from './migrator.ts'
import { checkSchema, isServed, prepareDatabase, UNFINISHED } from './schema.ts'

const BATCH = 64
/** Numbers are those that are given, and not the database's. */
const OVERRIDING = 'OVERRIDING SYSTEM VALUE'

/** A column that only this database has, of the values of the others. */
interface Derived {
  readonly name: string
  readonly of: (value: (column: string) => Value) => Param
}

const DERIVED: Readonly<Record<string, Derived>> = {
  threads_meta: { name: 'metadata_terms', of: (value) => termTexts(JSON.parse(String(value('metadata_json')))) },
  // Of the frames before they were compressed.
  frames: {
    name: 'bytes',
    of: (value) => {
      const [format, idx, data] = [Number(value('format')), bytesOf(value('idx')), bytesOf(value('data'))]
      if (format !== Format.brotli) return data.length
      const of = { id: 0, first_n: Number(value('first_n')), last_n: Number(value('last_n')) }
      return toSegment({ ...of, epoch: Number(value('epoch')), format, idx, data }).data.length
    }
  }
}

function bytesOf(value: Value): Buffer {
  return Buffer.from(value as Uint8Array)
}

/**
 * The database at this moment.
 * @throws Error when it cannot be reached, or is older, or too new for this program
 */
export async function openPostgresSource(url: string): Promise<CopySource> {
  const connection = await connected(url)
  try {
    await checkSchema(connection, 'read')
    await connection.rows('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return new PostgresSide(connection, true)
  } catch (error) {
    await connection.close()
    throw error
  }
}

/**
 * A database that is made, or goes on being made; until it is finished no server takes it.
 * @throws Error when there is something else in it, or a server uses it
 */
export async function openPostgresTarget(url: string, tables: readonly CopiedTable[]): Promise<CopyTarget> {
  await prepareDatabase(url, { isCopying: true })
  const connection = await connected(url)
  try {
    if (await isServed(connection)) throw new Error('A server is using the PostgreSQL database: stop it first')
    if (!(await hasTable(connection, UNFINISHED))) {
      await refuseRows(connection, tables)
      await connection.rows(`CREATE TABLE ${UNFINISHED} (begun timestamptz NOT NULL DEFAULT now())`)
    }
    return new PostgresTarget(connection, false)
  } catch (error) {
    await connection.close()
    throw error
  }
}

async function refuseRows(connection: PgConnection, tables: readonly CopiedTable[]): Promise<void> {
  for (const { name } of tables)
    if ((await connection.rows(`SELECT 1 FROM "${name}" LIMIT 1`)).length > 0)
      throw new Error(`The PostgreSQL database is not empty: there are rows in ${name}`)
}

/** However long a table takes. */
async function connected(url: string): Promise<PgConnection> {
  const connection = await PgConnection.open(url, { idleInTransactionMs: 0 })
  await connection.rows('SET statement_timeout = 0')
  return connection
}

type Types = ReadonlyMap<string, string>

class PostgresSide implements CopySource {
  protected readonly connection: PgConnection
  /** One transaction for all that is read. */
  readonly #isSnapshot: boolean
  readonly #types = new Map<string, Types>()

  constructor(connection: PgConnection, isSnapshot: boolean) {
    this.connection = connection
    this.#isSnapshot = isSnapshot
  }

  async *rows(
    { name, columns }: CopiedTable,
    where?: { sql: string; params: readonly string[] }
  ): AsyncGenerator<Row[]> {
    const types = await this.types(name)
    const readers = columns.map((column) => READERS[types.get(column) ?? ''] ?? asItIs)
    const sql = `SELECT ${columns.map(quoted)} FROM "${name}" ${where ? `WHERE ${where.sql}` : ''}`
    if (!this.#isSnapshot) await this.#run('BEGIN')
    await this.#run(`DECLARE copied NO SCROLL CURSOR FOR ${sql}`, where?.params)
    for (;;) {
      const found = await this.#run<Readonly<Record<string, unknown>>>(`FETCH ${BATCH} FROM copied`)
      if (found.length > 0) yield found.map((row) => columns.map((column, at) => readers[at]!(row[column])))
      if (found.length < BATCH) break
    }
    await this.#run('CLOSE copied')
    if (!this.#isSnapshot) await this.#run('COMMIT')
  }

  #run<Found>(sql: string, params: readonly string[] = []): Promise<Found[]> {
    return this.connection.rows<Found>(sql, params, 'anew')
  }

  async lastNumber({ name, counter }: CopiedTable): Promise<number> {
    const [row] = await this.connection.rows<{ last: number }>(
      `SELECT greatest((SELECT max("${counter}") FROM "${name}"), (SELECT last_value FROM pg_sequences
        WHERE to_regclass(quote_ident(schemaname) || '.' || quote_ident(sequencename)) = ${sequenceOf(name, counter)}), 0) AS last`
    )
    return row?.last ?? 0
  }

  close(): Promise<void> {
    return this.connection.close()
  }

  protected async types(table: string): Promise<Types> {
    const known = this.#types.get(table)
    if (known) return known
    const rows = await this.connection.rows<{ name: string; type: string }>(
      `SELECT column_name AS name, udt_name AS type FROM information_schema.columns
       WHERE table_schema = current_schema() AND table_name = $1`,
      [table]
    )
    const types = new Map(rows.map(({ name, type }) => [name, type]))
    this.#types.set(table, types)
    return types
  }
}

/** The database of an installation, also beside its servers. @throws Error when it is of another version */
export async function openPostgresPart(url: string): Promise<PartTarget> {
  const connection = await connected(url)
  try {
    await checkSchema(connection, 'write')
    return new PostgresTarget(connection, false)
  } catch (error) {
    await connection.close()
    throw error
  }
}

class PostgresTarget extends PostgresSide implements CopyTarget, PartTarget {
  async put(table: CopiedTable, batches: AsyncIterable<readonly Row[]>): Promise<void> {
    await this.together(async () => {
      for await (const batch of batches) await this.#insert(table, batch, OVERRIDING)
    })
  }

  async together(work: () => Promise<void>): Promise<void> {
    await this.connection.rows('BEGIN')
    try {
      await work()
      await this.connection.rows('COMMIT')
    } catch (error) {
      if (!this.connection.isLost) await this.connection.rows('ROLLBACK')
      throw error
    }
  }

  async has(table: string, column: string, value: string): Promise<boolean> {
    return (await this.connection.rows(`SELECT 1 FROM "${table}" WHERE "${column}" = $1`, [value])).length > 0
  }

  async add(table: CopiedTable, rows: readonly Row[]): Promise<number[]> {
    const { name, counter } = table
    if (counter === null) {
      await this.#insert(table, rows, '', 'ON CONFLICT DO NOTHING')
      return []
    }
    const columns = table.columns.filter((column) => column !== counter)
    const made: number[] = []
    // One by one: a statement of many rows answers them in no promised order.
    for (const row of rows) {
      const values = row.filter((_, at) => table.columns[at] !== counter)
      const [one] = await this.#insert(
        { name, columns, counter },
        [values],
        '',
        `RETURNING ${quoted(counter)} AS number`
      )
      made.push(one!.number)
    }
    return made
  }

  async addNumbered(table: CopiedTable, rows: readonly Row[]): Promise<void> {
    await this.#insert(table, rows, OVERRIDING)
  }

  async run(sql: string, param: string): Promise<void> {
    await this.connection.rows(sql, [param])
  }

  async derive(threadId: string): Promise<void> {
    const sql = `INSERT INTO search_queue (thread_id, version)
      SELECT thread_id, 1 FROM threads_meta WHERE thread_id = $1 AND is_temporary = 0
      ON CONFLICT (thread_id) DO UPDATE SET version = search_queue.version + 1`
    await this.connection.rows(sql, [threadId])
  }

  async #insert(
    { name, columns }: CopiedTable,
    batch: readonly Row[],
    overriding: string,
    more = ''
  ): Promise<{ readonly number: number }[]> {
    if (batch.length === 0) return []
    const types = await this.types(name)
    const derived = DERIVED[name]
    const writers = columns.map((column) => WRITERS[types.get(column) ?? ''] ?? bound)
    const params = batch.flatMap((row) => [
      ...row.map((value, at) => writers[at]!(value)),
      ...(derived ? [derived.of((column) => row[columns.indexOf(column)] ?? null)] : [])
    ])
    const names = [...columns, ...(derived ? [derived.name] : [])]
    const casts = names.map((column) => types.get(column))
    const rows = batch.map(
      (_, row) => `(${casts.map((type, at) => `CAST($${row * names.length + at + 1} AS ${type})`).join()})`
    )
    return this.connection.rows(
      `INSERT INTO "${name}" (${names.map(quoted)}) ${overriding} VALUES ${rows.join()} ${more}`,
      params,
      batch.length === BATCH ? 'kept' : 'anew'
    )
  }

  async clear({ name }: CopiedTable): Promise<void> {
    await this.connection.rows(`DELETE FROM "${name}"`)
  }

  async finish(lastNumbers: readonly { readonly table: CopiedTable; readonly last: number }[]): Promise<void> {
    await this.connection.rows('BEGIN')
    for (const { table, last } of lastNumbers)
      await this.connection.rows(
        `SELECT setval(${sequenceOf(table.name, table.counter)}, ${Math.max(1, last)}, ${last > 0})`
      )
    await this.connection.rows(
      `INSERT INTO search_queue (thread_id, version) SELECT thread_id, 1 FROM threads_meta WHERE is_temporary = 0
       ON CONFLICT DO NOTHING`
    )
    // Before the mark goes: whoever is killed in it begins anew, and is not told that the target is not empty.
    await this.connection.rows('ANALYZE')
    await this.connection.rows(`DROP TABLE ${UNFINISHED}`)
    await this.connection.rows('COMMIT')
  }
}

function sequenceOf(table: string, column: string | null): string {
  return `CAST(pg_get_serial_sequence('"${table}"', '${column}') AS regclass)`
}

function quoted(name: string): string {
  return `"${name}"`
}

/** What the driver reads, as a copy has it. */
function asItIs(value: unknown): Value {
  return value as Value
}
const READERS: Readonly<Record<string, (value: unknown) => Value>> = {
  bool: (value) => (value === null ? null : Number(value)),
  // A clock of the database has microseconds.
  timestamptz: (value) => (value === null ? null : String(value).replace(/(\.\d{3})\d+/, '$1'))
}

function bound(value: Value): Param {
  return value
}
const WRITERS: Readonly<Record<string, (value: Value) => Param>> = {
  bool: (value) => (value === null ? null : value === 1),
  // The driver does it for texts alone.
  varchar: (value) => (typeof value === 'string' ? encodeText(value) : value)
}
