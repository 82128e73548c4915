// Users in memory: sign-in works without a database, and is forgotten with the process.
import type { User } from '../../types.ts'
import { Refused } from '../refused.ts'
import type { UserReads } from '../store.ts'
import { byText, copyOf, type Noun } from './rows.ts'
import type { Undo } from './undo.ts'

/** Provider and subject together, or null for users who sign in by password. */
function identityOf({ oauth_provider, oauth_id }: User): string | null {
  return oauth_provider === null || oauth_id === null ? null : JSON.stringify([oauth_provider, oauth_id])
}

type UserOps = 'user.create' | 'user.initialize' | 'user.update' | 'session.deny'

export function memoryUsers(): Noun<UserReads, UserOps> {
  const byId = new Map<string, User>()
  const byEmail = new Map<string, User>()
  const byIdentity = new Map<string, User>()
  const admins = new Map<string, User>()
  /** Digests of logged-out credentials, with the unix time in seconds at which they end by themselves. */
  const denied = new Map<string, number>()

  const firstAdmin = (): User | undefined =>
    [...admins.values()].sort((left, right) => byText(left.created_at, right.created_at))[0]

  const keep = (user: User, undo: Undo): void => {
    undo.set(byId, user.id, user)
    undo.set(byEmail, user.email, user)
    const identity = identityOf(user)
    if (identity !== null) undo.set(byIdentity, identity, user)
    if (user.system_role === 'admin') undo.set(admins, user.id, user)
    else undo.delete(admins, user.id)
  }

  const create = (user: User, undo: Undo): 'created' | 'email_taken' => {
    if (byEmail.has(user.email)) return 'email_taken'
    if (byId.has(user.id)) throw new Refused(`user ${user.id} exists already`)
    const identity = identityOf(user)
    if (identity !== null && byIdentity.has(identity)) throw new Refused('this OAuth identity has an account already')
    keep(user, undo)
    return 'created'
  }

  return {
    reads: {
      async byId(id) {
        return copyOf(byId.get(id) ?? null)
      },
      async byEmail(email) {
        return copyOf(byEmail.get(email) ?? null)
      },
      async admin() {
        return copyOf(firstAdmin() ?? null)
      },
      async ofSession(id, digest) {
        const user = byId.get(id) ?? null
        return user && denied.has(digest) ? 'denied' : copyOf(user)
      }
    },
    writes: {
      'user.create': ({ user }, undo) => create(user, undo),
      'user.initialize': ({ user }, undo) => (admins.size ? 'initialized' : create(user, undo)),
      'user.update': ({ id, set }, undo) => {
        const before = byId.get(id)
        if (!before) return null
        const after = { ...before, ...set }
        const holder = byEmail.get(after.email)
        if (holder && holder.id !== id) return 'email_taken'
        undo.delete(byEmail, before.email)
        keep(after, undo)
        return after
      },
      'session.deny': ({ digest, expires, now }, undo) => {
        for (const [one, end] of denied) if (end < now) undo.delete(denied, one)
        undo.set(denied, digest, expires)
        return null
      }
    }
  }
}
