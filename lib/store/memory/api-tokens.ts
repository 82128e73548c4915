// API tokens in memory.
import { isVisible } from '../../scope.ts'
import type { ApiToken, User } from '../../types.ts'
import { Refused } from '../refused.ts'
import type { ApiTokenReads } from '../store.ts'
import { byText, copyOf, type Noun } from './rows.ts'

type TokenOps = 'apiToken.create' | 'apiToken.remove' | 'apiToken.use'

/** @param userOf an account by its id, as it is now */
export function memoryApiTokens(userOf: (id: string) => Promise<User | null>): Noun<ApiTokenReads, TokenOps> {
  const byId = new Map<string, ApiToken>()
  const byDigest = new Map<string, ApiToken>()

  return {
    reads: {
      async byDigest(digest) {
        const token = byDigest.get(digest)
        return token ? { token: copyOf(token), user: await userOf(token.user_id) } : null
      },
      async list(owner) {
        return [...byId.values()]
          .filter((token) => isVisible(token, owner))
          .sort((one, other) => byText(other.created_at, one.created_at) || byText(one.token_id, other.token_id))
          .map(copyOf)
      }
    },
    writes: {
      'apiToken.create': ({ token, max }, undo) => {
        if ([...byId.values()].filter(({ user_id }) => user_id === token.user_id).length >= max) return 'too_many'
        if (byId.has(token.token_id) || byDigest.has(token.digest)) throw new Refused('this token exists already')
        undo.set(byId, token.token_id, token)
        undo.set(byDigest, token.digest, token)
        return 'created'
      },
      'apiToken.remove': (op, undo) => {
        const owner = op.user
        const token = byId.get(op.token_id)
        if (!token || !isVisible(token, owner)) return null
        undo.delete(byId, token.token_id)
        undo.delete(byDigest, token.digest)
        return token
      },
      'apiToken.use': ({ token_id, at }, undo) => {
        const token = byId.get(token_id)
        if (!token || (token.last_used_at !== null && token.last_used_at >= at)) return null
        const used = { ...token, last_used_at: at }
        undo.set(byId, token_id, used)
        undo.set(byDigest, token.digest, used)
        return null
      }
    }
  }
}
