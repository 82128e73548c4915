// Items of the long-term store: what graphs and their clients keep for a user over all threads, under a namespace and a key.
import type { JsonObject, StoreItem } from '../../types.ts'
import type { Owner } from '../../scope.ts'

/** Labels of a namespace: none is empty or has a dot. */
export type Namespace = readonly string[]

export interface ItemQuery {
  /** Items of this namespace and of all below it; `[]` is every one. */
  readonly prefix: Namespace
  /** All of these members of the value: equal JSON, or `{ $eq $ne $gt $gte $lt $lte $in $nin: ... }`. */
  readonly filter?: JsonObject
  readonly limit: number
  readonly offset: number
}

export interface NamespaceQuery {
  /** `*` stands for any label. */
  readonly prefix?: Namespace
  readonly suffix?: Namespace
  /** Longer ones are cut to so many labels, and each is named once. */
  readonly maxDepth?: number
  readonly limit: number
  readonly offset: number
}

/** An item is its user's alone: there is none that belongs to nobody. What has expired is not there. */
export interface ItemReads {
  get(namespace: Namespace, key: string, user: Owner): Promise<StoreItem | null>
  /** What was written last comes first. */
  search(query: ItemQuery, user: Owner): Promise<StoreItem[]>
  /** In the order of their labels. */
  namespaces(query: NamespaceQuery, user: Owner): Promise<string[][]>
}

/** An item as it is written. */
export interface ItemWrite {
  readonly user_id: string
  readonly namespace: Namespace
  readonly key: string
  readonly value: JsonObject
  /** null: it stays. */
  readonly expires_at: string | null
}

/** What one user's items may be together; 0 is no limit. */
export interface ItemLimits {
  readonly items: number
  /** Of their values as JSON, in UTF-8. */
  readonly bytes: number
}
