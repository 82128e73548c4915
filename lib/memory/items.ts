// The long-term store for clients (through routes) and graphs, with the same limits and errors for both.
import { fail } from '../base/errors.ts'
import { OWN_NAMESPACE } from '../base/reserved.ts'
import { ownerOf, type UserArg } from '../base/scope.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import type { ItemQuery, Namespace, NamespaceQuery } from '../store/store.ts'
import { type JsonObject, type StoreItem, timestamp } from '../base/types.ts'

/** Maximum characters of a namespace (labels joined by dots) and of a key, which are both indexed. */
export const ADDRESS_MAX = 255
const MINUTE_MS = 60_000

/** 0 is no limit. They may change while it runs. */
interface ItemsOptions {
  readonly per_user: number
  readonly user_bytes: number
  readonly item_bytes: number
}

interface NewItem {
  readonly namespace: Namespace
  readonly key: string
  readonly value: JsonObject
  /** Lifetime in minutes; null: unlimited. */
  readonly ttl?: number | null
  /** By its user, not by an agent: a legal hold keeps the value that is there. */
  readonly isEdit?: boolean
}

export class Items {
  readonly #reads: ScopedStore['items']
  readonly #writer: ScopedWriter
  readonly #options: ItemsOptions
  readonly #ttl: number | null

  /** @param ttl default lifetime of an item in minutes; null: unlimited */
  constructor(reads: ScopedStore['items'], writer: ScopedWriter, options: ItemsOptions, ttl: number | null = null) {
    this.#ttl = ttl
    this.#reads = reads
    this.#writer = writer
    this.#options = options
  }

  /** @param user items always have a user. @throws Failure for an invalid namespace, key or value */
  async put(
    { namespace, key, value, ttl: given, isEdit = false }: NewItem,
    user?: Exclude<UserArg, null>
  ): Promise<void> {
    checkNamespace(namespace)
    checkWritable(namespace)
    checkLength(key, 'key')
    const { per_user, user_bytes, item_bytes: limit } = this.#options
    if (limit > 0 && Buffer.byteLength(JSON.stringify(value)) > limit) throw fail('item_too_large', { limit })
    // Not null, because `user` is not.
    const user_id = ownerOf(user, 'items.put')!
    const now = Date.now()
    const ttl = given ?? this.#ttl
    const expires_at = ttl === null ? null : timestamp(now + ttl * MINUTE_MS)
    const outcome = await this.#writer.write({
      name: 'item.put',
      item: { user_id, namespace, key, value, expires_at },
      now: timestamp(now),
      max: { items: per_user, bytes: user_bytes },
      isEdit
    })
    if (outcome === 'too_many') throw fail('items_full')
  }

  async get(namespace: Namespace, key: string, user?: UserArg): Promise<StoreItem | null> {
    return this.#reads.get(namespace, key, user)
  }

  /** @throws Failure namespace_reserved */
  async remove(namespace: Namespace, key: string, user?: UserArg): Promise<boolean> {
    checkWritable(namespace)
    return this.#writer.write({ name: 'item.remove', namespace, key, ...(user !== undefined && { user }) })
  }

  /** @throws Failure for an invalid prefix */
  async search(query: ItemQuery, user?: UserArg): Promise<StoreItem[]> {
    if (query.prefix.length > 0) checkNamespace(query.prefix)
    return this.#reads.search(query, user)
  }

  async namespaces(query: NamespaceQuery, user?: UserArg): Promise<string[][]> {
    for (const pattern of [query.prefix, query.suffix]) if (pattern?.length) checkNamespace(pattern)
    return this.#reads.namespaces(query, user)
  }
}

function checkNamespace(namespace: Namespace): void {
  if (namespace.length === 0) throw fail('namespace_missing')
  const text = namespace.join('.')
  checkLength(text, 'namespace')
  if (namespace.some((label) => label === '' || label.includes('.')))
    throw fail('namespace_invalid', { namespace: text })
}

/** What the service believes of a user is not the user's to write, and less that of a graph or a token. */
function checkWritable(namespace: Namespace): void {
  if (OWN_NAMESPACE.every((label, at) => namespace[at] === label))
    throw fail('namespace_reserved', { namespace: namespace.join('.') })
}

function checkLength(text: string, what: string): void {
  if (text.length > ADDRESS_MAX) throw fail('address_too_long', { what, max: ADDRESS_MAX })
}
