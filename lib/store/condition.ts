// The condition of a database server or file, as `colloquy doctor` reports it: its version, waiting locks, the homes that use it.
export interface Condition {
  /** With its version. */
  readonly engine: string
  /** Statements that wait for locks of others. */
  readonly waiting: number
  /** Ids of the homes of live processes. */
  readonly homes: readonly string[]
}
