// Items of the long-term store: values graphs and clients keep for a user across threads, under a namespace and a key.
import type { JsonObject, StoreItem } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

/** Labels of a namespace: not empty, without dots. */
export type Namespace = readonly string[]

export interface ItemQuery {
  /** Items of this namespace and everything under it; `[]` is all. */
  readonly prefix: Namespace
  /** Conditions on members of the value, all of which must hold: equal JSON, or `{ $eq $ne $gt $gte $lt $lte $in $nin: ... }`. */
  readonly filter?: JsonObject
  readonly limit: number
  readonly offset: number
}

export interface NamespaceQuery {
  /** `*` matches any label. */
  readonly prefix?: Namespace
  readonly suffix?: Namespace
  /** Namespaces are truncated to this many labels, and listed once. */
  readonly maxDepth?: number
  readonly limit: number
  readonly offset: number
}

/** Every item belongs to a user. Expired items are never returned. */
export interface ItemReads {
  get(namespace: Namespace, key: string, user: Owner): Promise<StoreItem | null>
  /** Most recently written first. */
  search(query: ItemQuery, user: Owner): Promise<StoreItem[]>
  /** In the order of their labels. */
  namespaces(query: NamespaceQuery, user: Owner): Promise<string[][]>
}

export interface ItemWrite {
  readonly user_id: string
  readonly namespace: Namespace
  readonly key: string
  readonly value: JsonObject
  /** null: it does not expire. */
  readonly expires_at: string | null
}

/** Limits for all items of one user; 0: no limit. */
export interface ItemLimits {
  readonly items: number
  /** Bytes of their values as UTF-8 JSON. */
  readonly bytes: number
}
