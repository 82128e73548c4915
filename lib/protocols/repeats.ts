// Requests that are sent again under their Idempotency-Key: in every protocol the same key is one run, as on our own routes [design 5].
import { fail } from '../base/errors.ts'
import type { Run } from '../base/types.ts'
import type { UserCall } from '../http/route.ts'
import { Authorizer } from '../routes/authorization.ts'
import { digestOf, idempotencyKeyOf } from '../routes/run-request.ts'
import type { Services } from '../routes/services.ts'

/** A request by its key, and a digest of what it asks for. */
export interface RequestKey {
  readonly key: string
  readonly hash: string
}

/**
 * null: it has none. `meant`: what has to be the same when it is sent again, which ids of JSON-RPC are not.
 * @throws Invalid when the key is too long
 */
export function requestKeyOf(call: UserCall, meant: unknown = call.body): RequestKey | null {
  const key = idempotencyKeyOf(call)
  if (key === null) return null
  return { key, hash: digestOf({ path: call.path, body: meant }) }
}

/**
 * The run that the request has begun when it was sent before; null: there is none. Looked up before anything is read of the thread:
 * what a request becomes there depends on what was said since.
 * @throws Failure idempotency_conflict when the key is another request's
 */
export async function begunBefore(services: Services, call: UserCall, request: RequestKey | null): Promise<Run | null> {
  const { policy, store } = services
  const earlier = request && (await store.runs.byKey(request.key))
  if (!earlier) return null
  if (earlier.idempotency_hash !== request.hash) throw fail('idempotency_conflict')
  if (policy) await new Authorizer(services, policy.askFor(call)).thread('read', earlier.thread_id)
  return earlier
}
