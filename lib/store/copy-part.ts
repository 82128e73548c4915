// Copies one thread, or one user with all threads, out of a backup into a database that may be in use. What is there stays as it is. Numbers
// of rows are given anew: those of the backup may be others' by now.
import { OWN_NAMESPACE } from '../base/reserved.ts'
import { runNamespace } from '../conversation/state.ts'
import type { CopiedTable, CopySource, Row, Value } from './copy.ts'

export interface PartTarget {
  has(table: string, column: string, value: string): Promise<boolean>
  /** Runs the work in one transaction. */
  together(work: () => Promise<void>): Promise<void>
  /**
   * Adds rows. Where the table gives numbers they are new ones, and answered in order; elsewhere a row that is there already stays.
   */
  add(table: CopiedTable, rows: readonly Row[]): Promise<number[]>
  /** Adds rows with the numbers that they have. */
  addNumbered(table: CopiedTable, rows: readonly Row[]): Promise<void>
  lastNumber: CopySource['lastNumber']
  /** A statement that both databases know. */
  run(sql: string, param: string): Promise<void>
  /** Makes what the database has beside the rows of a thread. */
  derive(threadId: string): Promise<void>
  close(): Promise<void>
}

export interface PartCopied {
  readonly threads: readonly string[]
  /** Threads that are there. */
  readonly skipped: readonly string[]
  /** Threads that are being removed: what is left of them would mix with what comes back. */
  readonly beingRemoved: readonly string[]
  /** Whether the account was made again. */
  readonly user: boolean
}

/** What is not to come back: what is yet to be done, credentials, and tables that are made of others or copied by themselves. */
const LEFT_OUT = new Set(
  'jobs removed_threads sessions provider_sessions denied_sessions api_tokens audit users frames threads_meta runs'.split(
    ' '
  )
)
const IN_FLIGHT = new Set<Value>(['pending', 'running'])

/** Without browsers that were told of answers: what lets them goes with a session. */
const ITEMS = `user_id = $1 AND namespace <> '${OWN_NAMESPACE.join('.')}'`
/** Before items, as every writer of them does. */
const LOCK_TOTALS = `INSERT INTO store_totals (user_id, items, bytes) VALUES ($1, 0, 0)
  ON CONFLICT (user_id) DO UPDATE SET items = store_totals.items`
const COUNT_TOTALS = `UPDATE store_totals SET items = (SELECT count(*) FROM store_items WHERE user_id = $1),
  bytes = (SELECT coalesce(sum(bytes), 0) FROM store_items WHERE user_id = $1) WHERE user_id = $1`

interface Parts {
  readonly source: CopySource
  readonly target: PartTarget
  readonly tables: readonly CopiedTable[]
  /** A thread is about to come back: what it has beside its rows comes first. */
  readonly onThread?: (threadId: string, owner: string | null) => Promise<void>
}

export class PartCopier {
  readonly #source: CopySource
  readonly #target: PartTarget
  readonly #tables: ReadonlyMap<string, CopiedTable>
  readonly #onThread: NonNullable<Parts['onThread']>

  constructor({ source, target, tables, onThread = async () => {} }: Parts) {
    this.#source = source
    this.#target = target
    this.#onThread = onThread
    this.#tables = new Map(tables.map((table) => [table.name, table]))
  }

  /** @throws Error when the backup has no such thread, or its user is gone */
  async thread(threadId: string): Promise<PartCopied & { readonly owner: string | null }> {
    const table = this.#table('threads_meta')
    const [row] = await this.#rows(table, 'thread_id = $1', threadId)
    if (!row) throw new Error(`The backup has no thread ${threadId}`)
    const found = valueIn(table, row, 'user_id')
    const owner = found === null ? null : String(found)
    if (owner !== null && !(await this.#target.has('users', 'id', owner)))
      throw new Error(`Its user ${owner} is not there: restore the user`)
    const lists = { threads: [], skipped: [], beingRemoved: [], [await this.#copyThread(threadId, owner)]: [threadId] }
    return { ...lists, user: false, owner }
  }

  /** The id of the user with this address. */
  async byEmail(email: string): Promise<string | null> {
    const users = this.#table('users')
    const [row] = await this.#rows(users, 'email = $1', email)
    return row ? String(valueIn(users, row, 'id')) : null
  }

  /** @throws Error when the backup has no such user, the address or identity is somebody else's now, or its removal is under way */
  async user(id: string): Promise<PartCopied & { readonly owner: string }> {
    const users = this.#table('users')
    const [row] = await this.#rows(users, 'id = $1', id)
    if (!row) throw new Error(`The backup has no user ${id}`)
    const email = String(valueIn(users, row, 'email'))
    const isNew = !(await this.#target.has('users', 'id', id))
    if (isNew && (await this.#target.has('users', 'email', email)))
      throw new Error(`There is another account with the address ${email}`)
    await this.#target.together(async () => {
      if (isNew) await this.#addUser(users, row, id)
      await this.#copyBeside(id)
    })
    const lists = { threads: [] as string[], skipped: [] as string[], beingRemoved: [] as string[] }
    const meta = this.#table('threads_meta')
    // One that is made for one run is removed by a job, and no job comes back.
    for (const thread of await this.#rows(meta, 'user_id = $1 AND is_temporary = 0', id)) {
      const threadId = String(valueIn(meta, thread, 'thread_id'))
      lists[await this.#copyThread(threadId, id)].push(threadId)
    }
    return { ...lists, user: isNew, owner: id }
  }

  /** Not while a job removes what such a user has: it would take this too. */
  async #addUser(users: CopiedTable, row: Row, id: string): Promise<void> {
    // Of all jobs only a departure has the id of a user as its key.
    if (await this.#target.has('jobs', 'key', id))
      throw new Error(
        `The account is being removed: restore it when colloquy jobs list has no departure ${id} any more`
      )
    await this.#target.addNumbered(users, [changed(users, row, new Map())])
  }

  /** What a user has beside threads. */
  async #copyBeside(id: string): Promise<void> {
    const assistants = this.#table('assistants')
    for (const row of await this.#rows(assistants, 'user_id = $1', id))
      await this.#copyAssistant(String(valueIn(assistants, row, 'assistant_id')))
    await this.#copy('crons', 'user_id = $1 AND thread_id IS NULL', id)
    await this.#target.run(LOCK_TOTALS, id)
    await this.#copy('store_items', ITEMS, id)
    await this.#target.run(COUNT_TOTALS, id)
  }

  /** With its versions. One that is there has versions of its own, and may be somebody else's by now. */
  async #copyAssistant(id: string): Promise<void> {
    if (await this.#target.has('assistants', 'assistant_id', id)) return
    await this.#copy('assistants', 'assistant_id = $1', id)
    await this.#copy('assistant_versions', 'assistant_id = $1', id)
  }

  /** @returns what it belongs to from now on */
  async #copyThread(threadId: string, owner: string | null): Promise<'threads' | 'skipped' | 'beingRemoved'> {
    if (await this.#target.has('threads_meta', 'thread_id', threadId)) return 'skipped'
    if (await this.#target.has('removed_threads', 'thread_id', threadId)) return 'beingRemoved'
    await this.#onThread(threadId, owner)
    await this.#target.together(async () => {
      await this.#copy('threads_meta', 'thread_id = $1', threadId)
      const keys = await this.#copyRuns(threadId)
      for (const { name, columns } of this.#tables.values())
        if (columns.includes('thread_id') && !LEFT_OUT.has(name))
          await this.#copy(name, 'thread_id = $1', threadId, keys)
      await this.#copy('frames', 'run_key IN (SELECT key FROM runs WHERE thread_id = $1)', threadId, keys)
      await this.#target.derive(threadId)
    })
    return 'threads'
  }

  /** Keys of runs that are new, by those of the backup. */
  async #copyRuns(threadId: string): Promise<Map<Value, number>> {
    const runs = this.#table('runs')
    const last = await this.#target.lastNumber(runs)
    const keys = new Map<Value, number>()
    for (const row of await this.#rows(runs, 'thread_id = $1', threadId)) {
      const key = Number(valueIn(runs, row, 'key'))
      const one = [changed(runs, row, new Map())]
      // A server may know the run by its key, which nobody else has been given since it was removed.
      if (key <= last && !(await this.#target.has('runs', 'key', String(key)))) {
        await this.#target.addNumbered(runs, one)
        continue
      }
      const [made] = await this.#target.add(runs, one)
      keys.set(key, made!)
    }
    return keys
  }

  async #copy(name: string, where: string, id: string, keys: ReadonlyMap<Value, number> = new Map()): Promise<void> {
    const table = this.#table(name)
    for await (const batch of this.#source.rows(table, { sql: where, params: [id] }))
      await this.#target.add(
        table,
        batch.map((row) => changed(table, row, keys))
      )
  }

  async #rows(table: CopiedTable, where: string, id: string): Promise<Row[]> {
    const all: Row[] = []
    for await (const batch of this.#source.rows(table, { sql: where, params: [id] })) all.push(...batch)
    return all
  }

  #table(name: string): CopiedTable {
    const table = this.#tables.get(name)
    if (!table) throw new Error(`There is no table ${name}`)
    return table
  }
}

function valueIn({ columns }: CopiedTable, row: Row, column: string): Value {
  return row[columns.indexOf(column)] ?? null
}

/** A row as it is added: nothing is in flight, and nothing begins by itself. */
function changed(table: CopiedTable, row: Row, keys: ReadonlyMap<Value, number>): Row {
  const { name, columns } = table
  const wasInFlight = name === 'runs' && IN_FLIGHT.has(valueIn(table, row, 'status'))
  return row.map((value, at) => {
    const column = columns[at]!
    switch (`${name}.${column}`) {
      case 'runs.status':
        return wasInFlight ? 'error' : value
      case 'runs.stop_reason':
        return wasInFlight ? 'server_restart' : value
      case 'runs.owner':
      case 'runs.idempotency_key':
        return null
      case 'threads_meta.status':
        return value === 'running' ? 'error' : value
      case 'users.token_version':
        // Greater than any before: sessions that had ended do not begin again.
        return Math.max(Number(value), Math.floor(Date.now() / 1000))
      case 'crons.enabled':
        return 0
      case 'frames.run_key':
        return keys.get(value) ?? value
      case 'graph_values.ns': {
        const moved = [...keys].find(([before]) => runNamespace(Number(before)) === value)
        return moved ? runNamespace(moved[1]) : value
      }
      default:
        return value
    }
  })
}
