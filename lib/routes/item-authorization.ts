// Applies the operator's auth handlers to the long-term store. Handlers may change the namespace and key of a call; a filter
// they return is matched against an item's value, namespace and key.
import { fail, Refused } from '../base/errors.ts'
import { isObject, type JsonObject, type StoreItem } from '../base/types.ts'
import { type Authorization, type Authorizer, bodyOf, holds, shown, withBody } from './authorizer.ts'
import type { NamespacesBody, SearchBody } from './items.ts'

const isWanted = (wanted: JsonObject | null, namespace: readonly string[], key?: string, value?: JsonObject): boolean =>
  wanted === null || holds({ ...value, namespace: [...namespace], ...(key !== undefined && { key }) }, wanted)

/** Namespace and key as the handlers changed them. @throws Failure item_not_found for an item that the filter hides */
async function itemAt(ask: Authorizer, action: string, given: JsonObject) {
  const value = structuredClone(given)
  const wanted = await ask.ask('store', action, value)
  // Validated by Items.
  const { namespace, key } = { ...given, ...value } as unknown as Pick<StoreItem, 'namespace' | 'key'>
  const found = wanted && (await ask.items.get(namespace, key))
  if (found && !isWanted(wanted, namespace, key, found.value)) throw fail('item_not_found')
  return { namespace, key, value: value.value, wanted, isThere: found !== null }
}

const changing =
  (action: 'put' | 'delete'): Authorization =>
  async (call, ask) => {
    const isPut = action === 'put'
    const at = await itemAt(ask, action, shown(bodyOf(call), 'namespace', 'key', ...(isPut ? ['value'] : [])))
    const { namespace, key, wanted } = at
    const value = isObject(at.value) ? at.value : {}
    if ((isPut || !at.isThere) && !isWanted(wanted, namespace, key, value)) throw new Refused(403, 'Not authorized')
    return withBody(call, { namespace, key, ...(isPut && { value }) })
  }

const getting: Authorization = async (call, ask) => {
  // Validated by the route's schema.
  const query = call.query as { namespace: string; key: string }
  const asked = { namespace: query.namespace === '' ? [] : query.namespace.split('.'), key: query.key }
  const { namespace, key } = await itemAt(ask, 'get', asked)
  return { ...call, query: { ...query, namespace: namespace.join('.'), key } }
}

/** Maximum items scanned for one answer with a filter, and how many per read. */
const SCANNED_MAX = 10_000
const SCANNED_AT_ONCE = 1_000

/** A page of the items that match a filter. @throws Failure if too many would have to be scanned */
async function scanned<T>(
  { limit, offset }: { readonly limit: number; readonly offset: number },
  next: (page: { limit: number; offset: number }) => Promise<T[]>,
  isMeant: (one: T) => boolean
): Promise<T[]> {
  const found: T[] = []
  let skip = offset
  let from = 0
  while (found.length < limit) {
    if (from >= SCANNED_MAX) throw fail('scan_too_long', { max: SCANNED_MAX })
    // It may be shorter than asked for, where values are long: only an empty one is the end.
    const page = await next({ limit: SCANNED_AT_ONCE, offset: from })
    if (page.length === 0) break
    from += page.length
    for (const one of page) if (isMeant(one) && skip-- <= 0) found.push(one)
  }
  return found.slice(0, limit)
}

const searching: Authorization = async (call, ask) => {
  const names = ['filter', 'limit', 'offset', 'query']
  const value: JsonObject = {
    namespace: structuredClone(bodyOf(call).namespace_prefix ?? []),
    ...shown(bodyOf(call), ...names)
  }
  const wanted = await ask.ask('store', 'search', value)
  const body = { ...bodyOf(call), namespace_prefix: value.namespace }
  if (wanted === null) return { ...call, body }
  // The route's schema has made it.
  const { namespace_prefix: prefix, filter, ...page } = body as unknown as SearchBody
  const items = await scanned(
    page,
    (part) => ask.items.search({ prefix, ...part, ...(filter && { filter }) }),
    (item) => isWanted(wanted, item.namespace, item.key, item.value)
  )
  return { reply: { json: { items } } }
}

const listingNamespaces: Authorization = async (call, ask) => {
  const names = ['suffix', 'max_depth', 'limit', 'offset']
  const value: JsonObject = { namespace: structuredClone(bodyOf(call).prefix ?? []), ...shown(bodyOf(call), ...names) }
  const wanted = await ask.ask('store', 'list_namespaces', value)
  const body = { ...bodyOf(call), prefix: value.namespace }
  if (wanted === null) return { ...call, body }
  // The route's schema has made it.
  const { prefix, suffix, max_depth: maxDepth, ...page } = body as unknown as NamespacesBody
  const namespaces = await scanned(
    page,
    (part) => ask.items.namespaces({ prefix, suffix, ...part, ...(maxDepth && { maxDepth }) }),
    (namespace) => isWanted(wanted, namespace)
  )
  return { reply: { json: { namespaces } } }
}

export const ITEM_AUTHORIZATIONS: Readonly<Record<string, Authorization>> = {
  'PUT /api/store/items': changing('put'),
  'DELETE /api/store/items': changing('delete'),
  'GET /api/store/items': getting,
  'POST /api/store/items/search': searching,
  'POST /api/store/namespaces': listingNamespaces
}
