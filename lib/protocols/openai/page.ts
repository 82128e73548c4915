// Pages of items, newest first unless asked otherwise.
import type { Call } from '../../http/route.ts'
import { searchParams } from '../../http/request.ts'
import { refusedValue } from '../../routes/input.ts'
import type { JsonObject } from '../../base/types.ts'

const LIMIT = 20
const LIMIT_MAX = 100

/** @param items oldest first @throws Invalid for a limit, an order or an item that is none */
export function pageOf(items: readonly JsonObject[], call: Call): JsonObject {
  const query = searchParams(call)
  const limit = query.get('limit') ?? String(LIMIT)
  const order = query.get('order') ?? 'desc'
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > LIMIT_MAX)
    throw refusedValue(['query', 'limit'], `must be from 1 to ${LIMIT_MAX}`)
  if (order !== 'asc' && order !== 'desc') throw refusedValue(['query', 'order'], 'must be asc or desc')
  const ordered = order === 'asc' ? items : [...items].reverse()
  const after = query.get('after')
  const at = after === null ? -1 : ordered.findIndex(({ id }) => id === after)
  if (after !== null && at < 0) throw refusedValue(['query', 'after'], 'there is no such item')
  const data = ordered.slice(at + 1, at + 1 + Number(limit))
  return listOf(data, at + 1 + data.length < ordered.length)
}

/** Items as they are. */
export function listOf(data: readonly JsonObject[], has_more = false): JsonObject {
  return { object: 'list', data: [...data], first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more }
}
