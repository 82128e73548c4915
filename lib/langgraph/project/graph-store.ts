// LangGraph's BaseStore over our items: graphs and clients see the same data.
import { DEFAULT_USER_ID } from '../../base/scope.ts'
import type { JsonObject, StoreItem } from '../../base/types.ts'
import type { LangGraph } from './library.ts'
import { plain } from './plain.ts'

export interface GraphItems {
  get(namespace: readonly string[], key: string, user: string): Promise<StoreItem | null>
  put(
    item: { readonly namespace: readonly string[]; readonly key: string; readonly value: JsonObject },
    user: string
  ): Promise<void>
  remove(namespace: readonly string[], key: string, user: string): Promise<boolean>
  search(
    query: {
      readonly prefix: readonly string[]
      readonly filter?: JsonObject
      readonly limit: number
      readonly offset: number
    },
    user: string
  ): Promise<StoreItem[]>
  namespaces(
    query: {
      readonly prefix?: readonly string[]
      readonly suffix?: readonly string[]
      readonly maxDepth?: number
      readonly limit: number
      readonly offset: number
    },
    user: string
  ): Promise<string[][]>
}

/** One of LangGraph's store operations, told apart by its members. */
interface Operation {
  readonly namespace?: string[]
  readonly key?: string
  readonly value?: unknown
  readonly namespacePrefix?: string[]
  readonly filter?: JsonObject
  readonly limit?: number
  readonly offset?: number
  readonly matchConditions?: readonly { readonly matchType: 'prefix' | 'suffix'; readonly path: string[] }[]
  readonly maxDepth?: number
}

/** @param user the run's user; null: a shared thread, which uses the default user's items */
export function createGraphStore(
  { BaseStore }: Pick<LangGraph, 'BaseStore'>,
  items: GraphItems,
  user: string | null
): object {
  const owner = user ?? DEFAULT_USER_ID
  return new (class Store extends BaseStore {
    /** In order, so that a graph can read what it has just put. */
    async batch(operations: readonly Operation[]): Promise<unknown[]> {
      const answers: unknown[] = []
      for (const operation of operations) answers.push(await answer(operation))
      return answers
    }
  })()

  async function answer(operation: Operation): Promise<unknown> {
    const { namespace = [], key = '', namespacePrefix, limit = 10, offset = 0 } = operation
    if (namespacePrefix !== undefined) {
      const { filter } = operation
      const found = await items.search({ prefix: namespacePrefix, limit, offset, ...(filter && { filter }) }, owner)
      return found.map(itemOf)
    }
    if (!('namespace' in operation)) return namespaces(operation)
    if (!('value' in operation)) {
      const found = await items.get(namespace, key, owner)
      return found && itemOf(found)
    }
    if (operation.value === null) await items.remove(namespace, key, owner)
    // LangGraph requires an object.
    else await items.put({ namespace, key, value: plain(operation.value) as JsonObject }, owner)
    return undefined
  }

  function namespaces({ matchConditions = [], maxDepth, limit = 100, offset = 0 }: Operation): Promise<string[][]> {
    const pathOf = (type: 'prefix' | 'suffix') => matchConditions.find(({ matchType }) => matchType === type)?.path
    const [prefix, suffix] = [pathOf('prefix'), pathOf('suffix')]
    const query = { limit, offset, ...(prefix && { prefix }), ...(suffix && { suffix }), ...(maxDepth && { maxDepth }) }
    return items.namespaces(query, owner)
  }
}

/** An item in LangGraph's form. */
function itemOf({ namespace, key, value, created_at, updated_at }: StoreItem): object {
  return { namespace, key, value, createdAt: new Date(created_at), updatedAt: new Date(updated_at) }
}
