// Items of the long-term store in memory.
import type { Owner } from '../../scope.ts'
import { type StoreItem, timestamp } from '../../types.ts'
import { isBelow, matchesFilter, namespaceText, pageOfNamespaces } from '../items.ts'
import type { ItemReads, ItemWrite, Namespace } from '../store.ts'
import { byText, copyOf, type Noun } from './rows.ts'

interface Kept extends StoreItem {
  readonly user_id: string
  readonly text: string
  readonly bytes: number
  readonly expires_at: string | null
}

function idOf(user: string, namespace: Namespace, key: string): string {
  return JSON.stringify([user, namespaceText(namespace), key])
}

function toItem({ namespace, key, value, created_at, updated_at }: Kept): StoreItem {
  return copyOf({ namespace, key, value, created_at, updated_at })
}

function newestFirst(one: Kept, other: Kept): number {
  return byText(other.updated_at, one.updated_at) || byText(other.text, one.text) || byText(other.key, one.key)
}

export function memoryItems(): Noun<ItemReads, 'item.put' | 'item.remove'> {
  const byId = new Map<string, Kept>()
  const visible = (owner: Owner, now = timestamp()): Kept[] =>
    [...byId.values()].filter(
      ({ user_id, expires_at }) => (owner === null || user_id === owner) && (expires_at === null || expires_at > now)
    )
  const at = (namespace: Namespace, key: string, owner: Owner): Kept[] =>
    visible(owner).filter((item) => item.key === key && item.text === namespaceText(namespace))

  /** Undefined: there is none, or it has expired by now. */
  const before = ({ user_id, namespace, key }: ItemWrite, now: string): Kept | undefined => {
    const found = byId.get(idOf(user_id, namespace, key))
    return found && (found.expires_at === null || found.expires_at > now) ? found : undefined
  }

  return {
    reads: {
      async get(namespace, key, owner) {
        const [found] = at(namespace, key, owner).sort(newestFirst)
        return found ? toItem(found) : null
      },
      async search({ prefix, filter, limit, offset }, owner) {
        return visible(owner)
          .filter(
            ({ text, value }) => isBelow(namespaceText(prefix), text) && (!filter || matchesFilter(value, filter))
          )
          .sort(newestFirst)
          .slice(offset, offset + limit)
          .map(toItem)
      },
      async namespaces(query, owner) {
        return pageOfNamespaces(
          visible(owner).map(({ text }) => text),
          query
        )
      }
    },
    writes: {
      'item.put': ({ item, now, max }, undo) => {
        const id = idOf(item.user_id, item.namespace, item.key)
        const found = before(item, now)
        const size = Buffer.byteLength(JSON.stringify(item.value))
        const others = visible(item.user_id, now).filter((one) => one !== found)
        const bytes = others.reduce((sum, one) => sum + one.bytes, size)
        if (!found && max.items > 0 && others.length >= max.items) return 'too_many'
        if (max.bytes > 0 && size > (found?.bytes ?? 0) && bytes > max.bytes) return 'too_many'
        const created_at = found?.created_at ?? now
        const next = { ...item, text: namespaceText(item.namespace), bytes: size, created_at, updated_at: now }
        undo.set(byId, id, next)
        return 'written'
      },
      'item.remove': ({ namespace, key, user }, undo) => {
        const found = at(namespace, key, user)
        for (const item of found) undo.delete(byId, idOf(item.user_id, item.namespace, item.key))
        return found.length > 0
      }
    }
  }
}
