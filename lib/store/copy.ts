// The one copier of rows, from one database to another: a backup is a copy to a new SQLite file, a restore one from it, and a move one
// between the two kinds. Both sides have the same tables with the same columns, as SQLite's schema says; what a database makes of them for
// itself (indexes of words and of metadata, what its processes write) it makes anew.
//
// Each table is copied whole or not at all, so that a copy that was cut goes on with the table at which it was. At the end the rows of the
// two sides are counted and hashed: in no order, because the two sort differently.
import { createHash } from 'node:crypto'

/** Times are texts to the millisecond, and yes and no 1 and 0. */
export type Value = string | number | null | Uint8Array
/** Values in the order of the table's columns. */
export type Row = readonly Value[]

export interface CopiedTable {
  readonly name: string
  readonly columns: readonly string[]
  /** The column whose numbers are given by the database, and never twice; null: none. */
  readonly counter: string | null
}

/** What can be read: of one moment. */
export interface CopySource {
  /** Batches of rows. `where`: a condition on them, and its parameters. */
  rows(table: CopiedTable, where?: { readonly sql: string; readonly params: readonly string[] }): AsyncIterable<Row[]>
  /** The last number that the table's counter has given. */
  lastNumber(table: CopiedTable): Promise<number>
  close(): Promise<void>
}

export interface CopyTarget extends CopySource {
  /** Writes all rows of a table in one transaction. */
  put(table: CopiedTable, batches: AsyncIterable<readonly Row[]>): Promise<void>
  clear(table: CopiedTable): Promise<void>
  /** Counters go on from there. Makes what the database has beside its rows; from here on it is one that can be served. */
  finish(lastNumbers: readonly { readonly table: CopiedTable; readonly last: number }[]): Promise<void>
}

/** How many rows a table has, and a hash of them all. */
interface Sum {
  readonly rows: number
  readonly hash: string
}
export type TableSum = Sum & Pick<CopiedTable, 'name' | 'columns'>

/** Rows differ between the two sides. */
export class CopyDiffers extends Error {
  override readonly name = 'CopyDiffers'
}

/**
 * Copies all rows; tables that the target has already are compared, and copied again if they differ.
 * @throws CopyDiffers when the target has other rows at the end than the source had
 */
export async function copyRows(
  source: CopySource,
  target: CopyTarget,
  tables: readonly CopiedTable[],
  onTable: (sum: TableSum) => void = () => {}
): Promise<TableSum[]> {
  const sums: TableSum[] = []
  for (const table of tables) {
    const sum = { name: table.name, columns: table.columns, ...(await copyTable(source, target, table)) }
    onTable(sum)
    sums.push(sum)
  }
  const counted = tables.filter(({ counter }) => counter !== null)
  const lastNumbers = counted.map(async (table) => ({ table, last: await source.lastNumber(table) }))
  await target.finish(await Promise.all(lastNumbers))
  return sums
}

async function copyTable(source: CopySource, target: CopyTarget, table: CopiedTable): Promise<Sum> {
  const before = await sumOf(target.rows(table))
  if (before.rows > 0) {
    const there = await sumOf(source.rows(table))
    if (isSame(before, there)) return there
    await target.clear(table)
  }
  const copied = new Summing()
  await target.put(table, copied.through(source.rows(table)))
  if (!isSame(copied.sum, await sumOf(target.rows(table))))
    throw new CopyDiffers(`The rows of ${table.name} have not arrived as they were`)
  return copied.sum
}

/**
 * Compares rows with what they were when they were counted.
 * @throws CopyDiffers that names the first table that has changed
 */
export async function checkRows(source: CopySource, expected: readonly TableSum[]): Promise<void> {
  for (const { name, columns, ...sum } of expected)
    if (!isSame(sum, await sumOf(source.rows({ name, columns, counter: null }))))
      throw new CopyDiffers(`The rows of ${name} are not those that were saved`)
}

async function sumOf(batches: AsyncIterable<readonly Row[]>): Promise<Sum> {
  const summing = new Summing()
  for await (const _ of summing.through(batches));
  return summing.sum
}

function isSame(one: Sum, other: Sum): boolean {
  return one.rows === other.rows && one.hash === other.hash
}

const HASH_BITS = 128
const HASH_BYTES = HASH_BITS / 8

/** The sum of the hashes of all rows, whatever their order. */
class Summing {
  #rows = 0
  #total = 0n

  get sum(): Sum {
    return { rows: this.#rows, hash: this.#total.toString(16).padStart(HASH_BYTES * 2, '0') }
  }

  async *through(batches: AsyncIterable<readonly Row[]>): AsyncGenerator<readonly Row[]> {
    for await (const batch of batches) {
      for (const row of batch) {
        this.#rows++
        this.#total = BigInt.asUintN(HASH_BITS, this.#total + hashOf(row))
      }
      yield batch
    }
  }
}

/** Values with their kind and length: no two rows have the same bytes. */
function hashOf(row: Row): bigint {
  const hash = createHash('sha256')
  for (const value of row) {
    if (value === null) hash.update('n;')
    else if (typeof value === 'number') hash.update(`i${value};`)
    else {
      const bytes = typeof value === 'string' ? Buffer.from(value) : value
      hash.update(`${typeof value === 'string' ? 't' : 'b'}${bytes.byteLength};`).update(bytes)
    }
  }
  return BigInt(`0x${hash.digest('hex').slice(0, HASH_BYTES * 2)}`)
}
