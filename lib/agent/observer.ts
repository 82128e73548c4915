// Observing agents: log lines, and metrics of model calls.
import type { Caller } from './runtime.ts'

/** The log interface; pino's fits. */
export interface AgentLog {
  debug?(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** A finished model call, including retries. */
export interface ModelCallStats {
  /** Name of the configured model. */
  readonly model: string
  /** `none`: outside of any run (a suggestion, the memory). */
  readonly caller: Caller | 'none'
  /** `aborted`: the run or the caller cancelled it. */
  readonly status: 'success' | 'error' | 'timeout' | 'aborted'
  readonly durationMs: number
  /** Time to the first delta; null: none came. */
  readonly firstTokenMs: number | null
  /** 0 where the provider does not say. */
  readonly inputTokens: number
  readonly outputTokens: number
}

/** Called once per model call, in the tick in which it ends; must not throw. */
export interface AgentObserver {
  modelCall(stats: ModelCallStats): void
}

/** Both, as agents are given them. */
export interface Reporting {
  readonly log?: AgentLog | undefined
  readonly observer?: AgentObserver | undefined
}
