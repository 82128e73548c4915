// Request headers that graphs find in their configuration, under the names that LangGraph's server gives them.
import type { Call } from '../http/call.ts'
import type { JsonObject } from '../types.ts'

const TOLD = /^(x-.+|user-agent)$/
/** Credentials, and headers of proxies. */
const KEPT = /^x-(api-key|tenant-id|service-key|csrf-token|real-ip|forwarded-.+)$/

export function toldHeaders({ req }: Pick<Call, 'req'>): JsonObject {
  const told = Object.entries(req.headers).filter(([name]) => TOLD.test(name) && !KEPT.test(name))
  return Object.fromEntries(told.map(([name, value]) => [name, String(value)]))
}
