// Legal holds on the command line, with the operator as who sets and lifts them.
import { type Actor, OPERATOR } from '../auth/audit.ts'
import { Holds } from '../auth/holds.ts'
import type { Config } from '../config/config.ts'
import { auditOf, beside } from './operator.ts'

/**
 * Works with the holds of an installation, also beside a running server, which asks for them each time that something is to be deleted.
 * @throws Error when there is no SQL database, and Failures of Holds
 */
export function withHolds<T>(config: Config, work: (holds: Holds, by: Actor) => Promise<T>): Promise<T> {
  return beside(config, (store, writer) => work(new Holds({ store, writer, audit: auditOf(writer) }), OPERATOR))
}

export { holdView, REASON_MAX } from '../auth/holds.ts'
