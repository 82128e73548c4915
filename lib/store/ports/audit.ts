// The audit, as administrators and auditors read it.
import type { AuditEntry } from '../../base/accounts.ts'
import type { Timestamp } from '../../base/types.ts'

export interface AuditSearch {
  readonly action?: string
  /** Who did it, or to whom it was done: `user:<id>`. */
  readonly about?: string
  readonly since?: Timestamp
  /** Only lines older than this one. */
  readonly before?: number
  readonly limit: number
}

export interface AuditReads {
  /** Newest first. */
  list(search: AuditSearch): Promise<AuditEntry[]>
}
