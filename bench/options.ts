// What the command line says of how to measure.
export interface Options {
  /** Small sizes and one repeat: to see that a bench works, not for figures. */
  readonly quick: boolean
  /** Samples of each figure. */
  readonly repeats: number
  /** Of the fan-out and of idle readers; null: the bench's own. */
  readonly joiners: number | null
  /** In place of SQLite, for the benches of stores: a postgres:// address of a database to fill, or a module with `openStore`. */
  readonly store: string | null
  /** The program, for the bench of proxies. */
  readonly nginx?: string
  /** Another checkout, which is built, for the bench of the page. */
  readonly beside?: string
}
