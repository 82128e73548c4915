// The audit: who did what to whom, from where. A row for administrators and auditors, and one line of the log.
import { type JsonObject, timestamp } from '../base/types.ts'
import type { OpOf, Writer } from '../store/store.ts'

/** What is recorded, by its action. */
export const AUDIT_ACTIONS = [
  'sign_in',
  'sign_in_failed',
  'lockout',
  'sign_out',
  'account_created',
  'account_linked',
  'account_deleted',
  'account_disabled',
  'account_enabled',
  'account_exported',
  'account_erased',
  'hold_added',
  'hold_lifted',
  'backup',
  'restore',
  'move',
  'role',
  'quota',
  'email',
  'password',
  'password_link',
  'sessions_ended',
  'token_created',
  'token_revoked',
  'invitation_created',
  'invitation_revoked',
  'link_created',
  'link_revoked',
  'link_opened',
  'tool_servers',
  'configuration',
  'acting_for',
  'job_retried',
  'job_dropped',
  'pruned'
] as const
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

/** Who does something, and from where. */
export interface Actor {
  /** `user:<id>`, `operator`, `system` or `nobody`. */
  readonly actor: string
  readonly address: string | null
  readonly requestId: string | null
}

/** The command line. */
export const OPERATOR: Actor = { actor: 'operator', address: null, requestId: null }

/** The service itself. */
export const SYSTEM: Actor = { actor: 'system', address: null, requestId: null }

/** The part of a request that says who does something. */
interface Source {
  readonly user: { readonly id: string } | null
  readonly grant: { readonly actor?: string } | null
  readonly address: string
  readonly requestId: string
}

/** Who makes a request: of a token that acts for somebody, the account that it belongs to. */
export function actorOf({ user, grant, address, requestId }: Source): Actor {
  const id = grant?.actor ?? user?.id
  return { actor: id === undefined ? 'nobody' : userName(id), address, requestId }
}

/** How an account is named in the audit. */
export function userName(id: string): string {
  return `user:${id}`
}

/** How a link to a thread is named in the audit. */
export function linkName(id: string): string {
  return `link:${id}`
}

/** Records that somebody has changed a job by hand: by its kind, for its key names what may be deleted before the audit is. */
export function jobAudit(audit: Pick<Audit, 'record'>, by: Actor) {
  return (how: 'retry' | 'drop', { kind }: { readonly kind: string }): Promise<void> =>
    audit.record(how === 'retry' ? 'job_retried' : 'job_dropped', by, `job:${kind}`)
}

interface AuditParts {
  readonly writer: Pick<Writer, 'write'>
  readonly log: { info(fields: object, text: string): void; error(fields: object, text: string): void }
}

export class Audit {
  readonly #parts: AuditParts

  constructor(parts: AuditParts) {
    this.#parts = parts
  }

  /** Nothing is left of an account: to be written together with what says so. */
  erased(userId: string, by: { readonly actor: string; readonly request_id: string | null }): OpOf<'audit.add'> {
    const actor = { actor: by.actor, address: null, requestId: by.request_id }
    return { name: 'audit.add', entry: this.#logged('account_erased', actor, userName(userId), {}) }
  }

  /** Resolves when it is stored. What is done already is not undone when that fails: the log has the line, and the failure. */
  async record(action: AuditAction, by: Actor, target: string | null = null, details: JsonObject = {}): Promise<void> {
    const { writer, log } = this.#parts
    const entry = this.#logged(action, by, target, details)
    try {
      await writer.write({ name: 'audit.add', entry })
    } catch (error) {
      log.error({ err: error, action, actor: by.actor }, 'a line of the audit could not be stored')
    }
  }

  #logged(action: AuditAction, { actor, address, requestId }: Actor, target: string | null, details: JsonObject) {
    const entry = { at: timestamp(), action, actor, target, address, request_id: requestId, details }
    const { at: _, request_id, ...fields } = entry
    this.#parts.log.info({ audit: fields, ...(request_id !== null && { request_id }) }, 'audit')
    return entry
  }
}
