// Runs statements of this store, on a connection of the pool or in a batch's transaction, and the steps of nouns that consist of them.
import { runLater, type Param as StepParam, type Steps } from '../sql/steps.ts'

/** A statement parameter. Lists go as text, see text.ts. */
export type Param = string | number | boolean | null | Uint8Array

export type Planning = 'kept' | 'anew'

/** Runs statements: the pool for reads, a batch's transaction for writes. Parameters are $1, $2... in the SQL. */
export interface Db {
  /**
   * Rows of a statement. `plan` anew: the server plans for these values, because the best plan depends on them; otherwise it may keep one.
   */
  rows<Row>(sql: string, params?: readonly Param[], plan?: Planning): Promise<Row[]>
  /** Number of rows a statement changed. */
  changes(sql: string, params?: readonly Param[]): Promise<number>
}

/** Runs reads: the pool. */
export interface ReadDb extends Db {
  /** Runs `work` on one connection, whose statements all see the same moment. A second time when the connection was lost. */
  snapshot<T>(work: (db: Db) => Promise<T>): Promise<T>
}

// ----------------------------------------------------------------- Runs the steps of a noun, one after the other

/** Parameters as the server takes them. */
export function boundParams(params: readonly StepParam[]): Param[] {
  return params.map((value) => {
    if (typeof value !== 'object' || value === null) return value
    return value instanceof Uint8Array ? value : texts(value)
  })
}

/** A statement for PostgreSQL: without index hints. */
function postgresText(sql: string): string {
  return sql.includes(' INDEXED BY ') ? sql.replace(/ INDEXED BY \w+/g, '') : sql
}

export function runSteps<T>(db: Db, steps: Steps<T>): Promise<T> {
  return runLater(steps, ({ sql, params }) => db.rows(postgresText(sql), boundParams(params)))
}

// ----------------------------------------------------------------------------------------------------
// Texts and lists as PostgreSQL takes them.  PostgreSQL stores no U+0000, and UTF-8 no half of a surrogate pair; tools emit both. So what
// cannot be stored, and U+001A itself, becomes U+001A (the "substitute" control code) and four hexadecimal digits. That is one to one,
// and nearly all texts are stored unchanged, readable in psql. jsonb would refuse or change such texts, so JSON is stored as text.

const ESCAPE = '\u001a'
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const NO_PLACE = /[\0\u001a]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const CONTROLS = /[\0\u001a]/
const ESCAPED = new RegExp(`${ESCAPE}([0-9a-f]{4})`, 'g')

/** Text to stored form. */
export function encodeText(text: string): string {
  if (text.isWellFormed() && !CONTROLS.test(text)) return text
  return text.replace(NO_PLACE, (unit) => ESCAPE + unit.charCodeAt(0).toString(16).padStart(4, '0'))
}

/** Stored form to text. */
export function decodeText(text: string): string {
  if (!text.includes(ESCAPE)) return text
  return text.replace(ESCAPED, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** A list of texts as one parameter; cast it: `$1::text[]`. */
export function texts(list: readonly (string | null)[]): string {
  return `{${list.map((text) => (text === null ? 'NULL' : quoted(encodeText(text)))).join()}}`
}

/** A list of numbers as one parameter; cast it: `$1::bigint[]`. */
export function numbers(list: readonly number[]): string {
  return `{${list.join()}}`
}

/** A list of byte strings as one parameter; cast it: `$1::bytea[]`. */
export function byteStrings(list: readonly Uint8Array[]): string {
  return `{${list.map((bytes) => `"\\\\x${hex(bytes)}"`).join()}}`
}

/** A byte string in PostgreSQL's hex form. */
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}

function quoted(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, '\\$&') : text}"`
}
