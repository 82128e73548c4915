// How the program that keeps the rows is, for whoever looks after it: `colloquy doctor`.
export interface Condition {
  /** With its version. */
  readonly engine: string
  /** Statements that wait for locks of others. */
  readonly waiting: number
  /** Ids of the homes of live processes. */
  readonly homes: readonly string[]
}
