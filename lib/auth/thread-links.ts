// Links to threads: a credential that opens one thread for reading, as its maker sees it. Stored like API tokens, as a digest, and neither
// works as the other.
import { LRUCache } from 'lru-cache'
import { Failure, fail } from '../base/errors.ts'
import {
  type ApiToken,
  type Credential,
  type Grant,
  type Permission,
  type Principal,
  THREAD_FILES,
  THREAD_LINK
} from '../base/accounts.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import { createKey, type NewKey } from './api-tokens.ts'
import { digestOf, type Revocation, type Sessions } from './session.ts'

/** Who may open links: nobody, who is signed in, or everybody who has one. */
type Sharing = 'off' | 'users' | 'public'

/** An opening is recorded once in this time for each link and viewer; and so many of them are remembered. */
const OPENED_MS = 3_600_000
const OPENED_MAX = 10_000
const READING: ReadonlySet<Permission> = new Set<Permission>(['threads:read', 'runs:read'])

interface ThreadLinkParts {
  readonly sharing: Sharing
  readonly reads: ScopedStore['apiTokens']
  readonly writer: ScopedWriter
  readonly sessions: Pick<Sessions, 'authenticate' | 'isValid'>
  /** As in SessionParts. */
  readonly onRevoked: (revocation: Revocation) => void
  /** Called when a link is opened for the first time in a while. `viewerId` null: by somebody who is not signed in. Must not throw. */
  readonly onOpened: (link: ApiToken, viewerId: string | null, address: string) => void
}

interface NewThreadLink {
  readonly user_id: string
  readonly thread_id: string
  /** Opens the files of the thread as well. */
  readonly hasFiles: boolean
  readonly lifetimeMs: number
}

export class ThreadLinks {
  readonly #parts: ThreadLinkParts
  readonly #opened = new LRUCache<string, true>({ max: OPENED_MAX, ttl: OPENED_MS })

  constructor(parts: ThreadLinkParts) {
    this.#parts = parts
  }

  /**
   * The maker of the link, as far as it opens what is the maker's.
   * @throws Failure 401: not_authenticated where only users may open links, token_invalid, token_expired, or what is wrong with the session
   */
  async authenticate({ text, viewer: session, address = '' }: Omit<Credential, 'kind'>): Promise<Principal> {
    const { sharing, reads, sessions } = this.#parts
    if (sharing === 'users' && !session) throw fail('not_authenticated')
    const viewer = sharing === 'users' && session ? (await sessions.authenticate(session)).grant : null
    const found = sharing === 'off' ? null : await reads.byDigest(digestOf(text))
    const threadId = found?.token.thread_id
    if (!found?.user || found.user.disabled_at !== null || threadId === undefined) throw new Failure('token_invalid')
    const { token, user } = found
    const { digest, expires_at, scopes } = token
    const until = expires_at === null ? null : Date.parse(expires_at) / 1000
    if (until !== null && until * 1000 <= Date.now()) throw new Failure('token_expired')
    this.#note(token, viewer, address)
    // Nobody reads on whose session is over.
    const expires = earlier(until, viewer?.expires ?? null)
    const link = { threadId, hasFiles: scopes.includes(THREAD_FILES), viewer }
    const grant: Grant = { kind: 'link', userId: user.id, digest, version: 0, expires, permissions: READING, link }
    return { user, grant }
  }

  #note(token: ApiToken, viewer: Grant | null, address: string): void {
    const key = `${token.digest} ${viewer?.userId ?? ''}`
    if (this.#opened.has(key)) return
    this.#opened.set(key, true)
    this.#parts.onOpened(token, viewer?.userId ?? null, address)
  }

  /** Whether a link is still good, and whoever has opened it signed in, for open streams. */
  async isValid({ digest, link }: Grant): Promise<boolean> {
    const found = await this.#parts.reads.byDigest(digest)
    if (!found?.user || found.user.disabled_at !== null) return false
    return !link?.viewer || this.#parts.sessions.isValid(link.viewer)
  }

  /**
   * `text` of the result is shown once. The user's links to that thread that have expired make room.
   * @throws Failure sharing_off, links_full
   */
  async create({ user_id, thread_id, hasFiles, lifetimeMs }: NewThreadLink): Promise<NewKey> {
    const { sharing, writer } = this.#parts
    if (sharing === 'off') throw fail('sharing_off')
    const over = (await this.list(thread_id)).filter(({ expires_at }) => Date.parse(expires_at ?? '') <= Date.now())
    for (const { token_id } of over) await writer.write({ name: 'apiToken.remove', token_id, user: user_id })
    const scopes: ApiToken['scopes'] = hasFiles ? [THREAD_LINK, THREAD_FILES] : [THREAD_LINK]
    return createKey(writer, { user_id, name: 'link', scopes, lifetimeMs, thread_id })
  }

  /** The current user's links to a thread, newest first. */
  async list(threadId: string): Promise<ApiToken[]> {
    return (await this.#parts.reads.list()).filter(({ thread_id }) => thread_id === threadId)
  }

  /** Revokes a link and ends its streams. False: the current user has none of this id to that thread. */
  async revoke(threadId: string, id: string): Promise<boolean> {
    if (!(await this.list(threadId)).some(({ token_id }) => token_id === id)) return false
    const gone = await this.#parts.writer.write({ name: 'apiToken.remove', token_id: id })
    if (gone) this.#parts.onRevoked({ digest: gone.digest })
    return gone !== null
  }
}

/** The earlier of two ends; null: there is none. */
function earlier(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other
  return Math.min(one, other)
}
