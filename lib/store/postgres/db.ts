// How the nouns of this store ask the server.

/** One parameter of a statement. Lists go as text, see text.ts. */
export type Param = string | number | boolean | null | Uint8Array

export type Planning = 'kept' | 'anew'

/** Who answers statements: the pool for reads, the transaction of a batch for writes. Parameters are $1, $2... in the SQL. */
export interface Db {
  /**
   * The rows that a statement answers with. `plan` anew: the best way depends on the values, and the server is to choose it for these;
   * otherwise it keeps one for all, in the end.
   */
  rows<Row>(sql: string, params?: readonly Param[], plan?: Planning): Promise<Row[]>
  /** How many rows a statement has changed. */
  changes(sql: string, params?: readonly Param[]): Promise<number>
}
