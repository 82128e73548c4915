// Invitations: single-use keys an administrator makes for people without an account. Stored as API tokens with a scope
// of their own, so that they need no table, and neither kind works as the other.
import { fail } from '../base/errors.ts'
import type { UserArg } from '../base/scope.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import { type ApiToken, INVITATION } from '../base/types.ts'
import { createKey, isInvitation, type NewKey } from './api-tokens.ts'
import { digestOf } from './token.ts'

export class Invitations {
  readonly #reads: ScopedStore['apiTokens']
  readonly #writer: ScopedWriter

  constructor(reads: ScopedStore['apiTokens'], writer: ScopedWriter) {
    this.#reads = reads
    this.#writer = writer
  }

  /**
   * `text` of the result is shown to the administrator, who passes it on.
   * @throws Failure api_tokens_full: invitations count among their maker's tokens
   */
  create(wanted: { user_id: string; name: string; lifetimeMs: number }): Promise<NewKey> {
    return createKey(this.#writer, { ...wanted, scopes: [INVITATION] })
  }

  /** Unused invitations, newest first, including expired ones. */
  async list(user?: UserArg): Promise<ApiToken[]> {
    return (await this.#reads.list(user)).filter(isInvitation)
  }

  /** False: no such invitation of this user. */
  async revoke(id: string, user?: UserArg): Promise<boolean> {
    const isOne = (await this.list(user)).some(({ token_id }) => token_id === id)
    return isOne && (await this.#writer.write({ name: 'apiToken.remove', token_id: id, user })) !== null
  }

  /** @throws Failure invitation_invalid: unknown, used, revoked, expired, or its maker is no longer an administrator */
  async find(text: string | null): Promise<ApiToken> {
    const found = text === null ? null : await this.#reads.byDigest(digestOf(text))
    const hasEnded = found !== null && Date.parse(found.token.expires_at ?? '') <= Date.now()
    if (!found || !isInvitation(found.token) || hasEnded || found.user?.system_role !== 'admin')
      throw fail('invitation_invalid')
    return found.token
  }

  /**
   * The first to use it wins.
   * @throws Failure invitation_invalid
   */
  async use({ token_id, user_id }: ApiToken): Promise<void> {
    if ((await this.#writer.write({ name: 'apiToken.remove', token_id, user: user_id })) === null)
      throw fail('invitation_invalid')
  }
}
