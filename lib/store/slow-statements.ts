// Slow statements: logged with their text, which has no values in it.
import type { Warn } from './store.ts'

const SHOWN_MAX = 500

let mostMs = Number.POSITIVE_INFINITY
let warn: Warn = () => {}

/** Statements that take longer are logged from now on, those of all stores of this process. @param ms 0: none are */
export function logSlowStatements(ms: number, log: Warn): void {
  mostMs = ms || Number.POSITIVE_INFINITY
  warn = log
}

/** The clock of a line whose statements are answered one after the other: one begins when it is sent and the one before is answered. */
export class StatementClock {
  #answered = 0

  /** Call it when a statement has been answered. @param sent by `performance.now()` */
  note(sql: string, sent: number): void {
    noteStatement(sql, Math.max(sent, this.#answered))
    this.#answered = performance.now()
  }
}

/** Call it when a statement has been answered. @param began by `performance.now()` */
export function noteStatement(sql: string, began: number): void {
  const ms = performance.now() - began
  if (ms < mostMs) return
  const statement = sql.replace(/\s+/g, ' ').trim().slice(0, SHOWN_MAX)
  warn({ ms: Math.round(ms), statement }, 'a statement was slow')
}
