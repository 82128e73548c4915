// What the project's auth rules are asked about assistants, crons and the long-term store.
import { fail, Refused } from '../../base/errors.ts'
import { type Cron, isObject, type Assistant, type JsonObject, type StoreItem } from '../../base/types.ts'
import type { AskRules, Authorization } from '../../http/route.ts'
import { bodyOf, changed, creating, holds, shown, withBody } from '../../routes/authorization.ts'
import type { Services } from '../../routes/services.ts'

type Assistants = Pick<Services, 'assistants'>

/** About the assistant in the path, with these members of the body. */
export function onAssistant({ assistants }: Assistants, action: string, ...names: string[]): Authorization {
  return async (call, ask) => {
    const id = call.params.assistant_id!
    const value: JsonObject = { assistant_id: id, ...shown(bodyOf(call), ...names) }
    const wanted = await ask('assistants', action, value)
    const found = wanted && (await assistants.get(id, call.user.id))
    if (wanted && !isShown(found, wanted)) throw fail('assistant_not_found')
    return changed(call, value)
  }
}

export function creatingAssistant({ assistants }: Assistants): Authorization {
  const names = ['assistant_id', 'graph_id', 'name', 'config', 'context', 'if_exists']
  return creating('assistants', names, async (call, _ask, wanted) => {
    const { assistant_id: id } = bodyOf(call)
    const found = wanted && typeof id === 'string' && (await assistants.get(id, call.user.id))
    if (found && wanted && !holds(found.metadata, wanted)) throw fail('assistant_exists')
  })
}

export const creatingCron = creating('crons', ['schedule', 'assistant_id', 'end_time', 'input', 'config'])

/** About the cron in the path. */
export function onCron({ store }: Pick<Services, 'store'>, action: 'update' | 'delete'): Authorization {
  return async (call, ask) => {
    const id = call.params.cron_id!
    const payload = action === 'update' && { payload: structuredClone(bodyOf(call)) }
    const wanted = await ask('crons', action, { cron_id: id, ...payload })
    const found = wanted && (await store.crons.get(id))
    if (wanted && !isShown(found, wanted)) throw fail('cron_not_found', { id })
    return call
  }
}

function isShown(found: Assistant | Cron | null, wanted: JsonObject): boolean {
  return found !== null && holds(found.metadata, wanted)
}

// ------------------------------------------------------------------------------------------------------------- items
// Rules may change the namespace and key of a call; a filter they return is matched against an item's value, namespace and key.

type Items = Pick<Services, 'items'>

const isWanted = (wanted: JsonObject | null, namespace: readonly string[], key?: string, value?: JsonObject): boolean =>
  wanted === null || holds({ ...value, namespace: [...namespace], ...(key !== undefined && { key }) }, wanted)

/** Namespace and key as the rules changed them. @throws Failure item_not_found for an item that the filter hides */
async function itemAt({ items }: Items, ask: AskRules, action: string, given: JsonObject) {
  const value = structuredClone(given)
  const wanted = await ask('store', action, value)
  // Validated by Items.
  const { namespace, key } = { ...given, ...value } as unknown as Pick<StoreItem, 'namespace' | 'key'>
  const found = wanted && (await items.get(namespace, key))
  if (found && !isWanted(wanted, namespace, key, found.value)) throw fail('item_not_found')
  return { namespace, key, value: value.value, wanted, isThere: found !== null }
}

export function changingItem(services: Items, action: 'put' | 'delete'): Authorization {
  return async (call, ask) => {
    const isPut = action === 'put'
    const given = shown(bodyOf(call), 'namespace', 'key', ...(isPut ? ['value'] : []))
    const at = await itemAt(services, ask, action, given)
    const { namespace, key, wanted } = at
    const value = isObject(at.value) ? at.value : {}
    if ((isPut || !at.isThere) && !isWanted(wanted, namespace, key, value)) throw new Refused(403, 'Not authorized')
    return withBody(call, { namespace, key, ...(isPut && { value }) })
  }
}

export function gettingItem(services: Items): Authorization {
  return async (call, ask) => {
    // Validated by the route's schema.
    const query = call.query as { namespace: string; key: string }
    const asked = { namespace: query.namespace === '' ? [] : query.namespace.split('.'), key: query.key }
    const { namespace, key } = await itemAt(services, ask, 'get', asked)
    return { ...call, query: { ...query, namespace: namespace.join('.'), key } }
  }
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

/** Bodies of searches, as the schemas of their rows make them. */
export interface SearchBody {
  readonly namespace_prefix: string[]
  readonly filter?: JsonObject | null | undefined
  readonly limit: number
  readonly offset: number
}
export interface NamespacesBody {
  readonly prefix: string[]
  readonly suffix: string[]
  readonly max_depth?: number | null | undefined
  readonly limit: number
  readonly offset: number
}

export function searchingItems({ items }: Items): Authorization {
  return async (call, ask) => {
    const names = ['filter', 'limit', 'offset', 'query']
    const namespace = structuredClone(bodyOf(call).namespace_prefix ?? [])
    const value: JsonObject = { namespace, ...shown(bodyOf(call), ...names) }
    const wanted = await ask('store', 'search', value)
    const body = { ...bodyOf(call), namespace_prefix: value.namespace }
    if (wanted === null) return { ...call, body }
    // The route's schema has made it.
    const { namespace_prefix: prefix, filter, ...page } = body as unknown as SearchBody
    const found = await scanned(
      page,
      (part) => items.search({ prefix, ...part, ...(filter && { filter }) }),
      (item) => isWanted(wanted, item.namespace, item.key, item.value)
    )
    return { reply: { json: { items: found } } }
  }
}

export function listingNamespaces({ items }: Items): Authorization {
  return async (call, ask) => {
    const names = ['suffix', 'max_depth', 'limit', 'offset']
    const namespace = structuredClone(bodyOf(call).prefix ?? [])
    const value: JsonObject = { namespace, ...shown(bodyOf(call), ...names) }
    const wanted = await ask('store', 'list_namespaces', value)
    const body = { ...bodyOf(call), prefix: value.namespace }
    if (wanted === null) return { ...call, body }
    // The route's schema has made it.
    const { prefix, suffix, max_depth: maxDepth, ...page } = body as unknown as NamespacesBody
    const namespaces = await scanned(
      page,
      (part) => items.namespaces({ prefix, suffix, ...part, ...(maxDepth && { maxDepth }) }),
      (one) => isWanted(wanted, one)
    )
    return { reply: { json: { namespaces } } }
  }
}
