// What an operator hears of an agent's work: lines in the log, and the figures of its model calls.
import type { Caller } from './runtime.ts'

/** What a log must be able to do; pino's is one. */
export interface AgentLog {
  debug?(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** A model call that is over, its retries included. */
export interface ModelCallStats {
  /** Name of the configured model. */
  readonly model: string
  /** `none`: of no run (a suggestion, the memory). */
  readonly caller: Caller | 'none'
  /** `aborted`: its run was, or whoever asked does not want it any more. */
  readonly status: 'success' | 'error' | 'timeout' | 'aborted'
  readonly durationMs: number
  /** Until the first delta; null: none came. */
  readonly firstTokenMs: number | null
  /** 0 where the provider does not say. */
  readonly inputTokens: number
  readonly outputTokens: number
}

/** Counts. Called once a model call, in the turn in which it ends; must not throw. */
export interface AgentObserver {
  modelCall(stats: ModelCallStats): void
}

/** Both, as agents are given them. */
export interface Reporting {
  readonly log?: AgentLog | undefined
  readonly observer?: AgentObserver | undefined
}
