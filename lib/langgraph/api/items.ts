// LangGraph's long-term store: the caller's items by namespace and key.
import * as v from 'valibot'
import { fail } from '../../base/errors.ts'
import { type Reply, route, type Route, type UserCall } from '../../http/route.ts'
import { fewKeys, integer, jsonObject, listOf, objectOf, queryBoolean } from '../../http/schema.ts'
import { ADDRESS_MAX } from '../../memory/items.ts'
import { arrayOf, nothing, one, ref, shaped, text as string } from '../../routes/answers.ts'
import { storeItem } from '../../routes/openapi-schemas.ts'
import type { Services } from '../../routes/services.ts'
import {
  changingItem,
  gettingItem,
  listingNamespaces,
  type NamespacesBody,
  type SearchBody,
  searchingItems
} from './authorization.ts'
import { isPython } from './dialect.ts'

const LABELS_MAX = 64
const LIMIT_MAX = 1_000
/** Limits of a filter, which is evaluated for every item: conditions, and characters as JSON. */
const FILTER_MAX = 32
const FILTER_LENGTH_MAX = 8_192
const QUERY_MAX = 10_000
/** Minutes: a hundred years. */
const TTL_MAX = 60 * 24 * 365 * 100

const text = v.pipe(v.string(), v.maxLength(ADDRESS_MAX))
const namespace = listOf(text, LABELS_MAX)
const limit = (otherwise: number) => v.nullish(integer({ min: 1, max: LIMIT_MAX }), otherwise)
const offset = v.nullish(integer({ min: 0 }), 0)

const putBody = objectOf({
  namespace,
  key: text,
  value: jsonObject,
  ttl: v.nullish(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(TTL_MAX)), null)
})
const removeBody = objectOf({ namespace: v.nullish(namespace, []), key: text })
const getQuery = objectOf({
  namespace: v.optional(v.pipe(v.string(), v.maxLength(ADDRESS_MAX)), ''),
  key: text,
  refresh_ttl: v.optional(queryBoolean, 'false')
})
const searchBody = objectOf({
  namespace_prefix: v.nullish(namespace, []),
  filter: v.nullish(fewKeys(FILTER_MAX, FILTER_LENGTH_MAX)),
  limit: limit(10),
  offset,
  // For semantic search, which is not implemented: results are newest first.
  query: v.nullish(v.pipe(v.string(), v.maxLength(QUERY_MAX)))
})
const namespacesBody = objectOf({
  prefix: v.nullish(namespace, []),
  suffix: v.nullish(namespace, []),
  max_depth: v.nullish(integer({ min: 1 })),
  limit: limit(100),
  offset
})

export function itemRoutes(services: Pick<Services, 'items' | 'config'>): Route[] {
  const { items, config } = services

  const put = async ({ body }: UserCall<v.InferOutput<typeof putBody>>): Promise<Reply> => {
    await items.put({ ...body, isEdit: true })
    return { status: 204 }
  }

  const remove = async ({ body }: UserCall<v.InferOutput<typeof removeBody>>): Promise<Reply> => {
    await items.remove(body.namespace, body.key)
    return { status: 204 }
  }

  const get = async (call: UserCall<unknown, v.InferOutput<typeof getQuery>>): Promise<Reply> => {
    const { namespace, key } = call.query
    const item = await items.get(namespace === '' ? [] : namespace.split('.'), key)
    if (item === null && isPython(call.dialect)) throw fail('item_not_found')
    return { json: item }
  }

  const search = async ({ body }: UserCall<SearchBody>): Promise<Reply> => {
    const { namespace_prefix: prefix, filter, limit, offset } = body
    return { json: { items: await items.search({ prefix, limit, offset, ...(filter && { filter }) }) } }
  }

  const namespaces = async ({ body }: UserCall<NamespacesBody>): Promise<Reply> => {
    const { max_depth: maxDepth, ...query } = body
    return { json: { namespaces: await items.namespaces({ ...query, ...(maxDepth && { maxDepth }) }) } }
  }

  const path = '/api/store/items'
  const reading = { permission: 'store:read' } as const
  const searching = { ...reading, method: 'POST', bodyOptional: true } as const
  const writing = { permission: 'store:write', path } as const
  const bodyLimit = config.server.body_bytes
  return [
    route({
      ...writing,
      method: 'PUT',
      body: putBody,
      bodyLimit,
      rule: changingItem(services, 'put'),
      summary: 'Store an item of the caller under a namespace and a key',
      answers: nothing,
      refusals: [409],
      handler: put
    }),
    route({
      ...writing,
      method: 'DELETE',
      refusals: [409],
      body: removeBody,
      rule: changingItem(services, 'delete'),
      summary: 'Delete an item',
      answers: nothing,
      handler: remove
    }),
    route({
      ...reading,
      method: 'GET',
      path,
      query: getQuery,
      rule: gettingItem(services),
      summary: 'An item, or null; the labels of its namespace are separated by dots',
      answers: one({ ...storeItem, type: ['object', 'null'] }),
      handler: get
    }),
    route({
      ...searching,
      path: `${path}/search`,
      body: searchBody,
      rule: searchingItems(services),
      summary: 'Search items below a namespace with a filter, last written first',
      answers: one(shaped({ items: arrayOf(ref('StoreItem')) })),
      handler: search
    }),
    route({
      ...searching,
      path: '/api/store/namespaces',
      body: namespacesBody,
      rule: listingNamespaces(services),
      summary: 'Namespaces of the caller’s items',
      answers: one(shaped({ namespaces: arrayOf(arrayOf(string)) })),
      handler: namespaces
    })
  ]
}
