// One provider of sign-ins that speaks OpenID Connect: discovery, the code flow with PKCE, refreshing, and what it says of ended sessions.
import { createHash } from 'node:crypto'
import { createRemoteJWKSet, customFetch, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { Configuration, TokenEndpointResponse } from 'openid-client'
import { fail, messageOf } from '../base/errors.ts'
import { optionalPeer } from '../base/optional-peer.ts'

export interface GroupRule {
  readonly name: string
  readonly role: 'admin' | 'auditor' | null
  /** Models and agents for this group alone, and for others that name them. */
  readonly models: readonly string[]
  readonly agents: readonly string[]
}

export interface ProviderOptions {
  readonly id: string
  readonly display_name: string | null
  readonly issuer: string
  readonly client_id: string
  readonly client_secret: string | null
  readonly scope: string
  readonly prompt: string | null
  readonly groups_claim: string
  readonly groups: readonly GroupRule[]
  readonly allowed_groups: readonly string[]
  readonly allowed_domains: readonly string[]
  readonly create_users: boolean
  readonly trusts_email: boolean
}

/** Whom a provider has signed in. */
export interface Identity {
  readonly subject: string
  readonly email: string | null
  /** False: the provider says that the address is not confirmed. */
  readonly isVerified: boolean
  readonly groups: readonly string[]
  /** The provider's session; null: it names none. */
  readonly sid: string | null
}

export interface ProviderTokens {
  /** null: the provider gives none, and cannot be asked whether the session stands. */
  readonly refresh: string | null
  readonly id: string | null
}

/** What a browser brings back and what it is compared with. */
interface Exchange {
  readonly verifier: string
  readonly state: string
  readonly nonce: string
}

type Library = typeof import('openid-client')

/** @throws Error in one sentence when the optional package is missing */
export const loadLibrary = (): Promise<Library> =>
  optionalPeer(() => import('openid-client'), 'auth.oidc', 'openid-client@6')

/** How long what a provider says of itself counts, in ms. */
const DISCOVERY_MS = 3_600_000
/** Time in which a provider that cannot be reached is not asked again, in ms. */
const PAUSE_MS = 2_000
const TIMEOUT_S = 10
/** Its keys are fetched again for one that is not known, once in so many ms. */
const KEYS_PAUSE_MS = 1_000
/** Of what may have been sent by others. */
const GROUPS_MAX = 1_000
const GROUP_LENGTH_MAX = 256
const SUBJECT_LENGTH_MAX = 128
/** Of one answer: what it says of itself, its keys, tokens, and what it says of somebody. */
const ANSWER_BYTES = 1 << 20
/** Age of a logout token in seconds. */
const LOGOUT_AGE_S = 600
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout'

interface Discovered {
  readonly library: Library
  readonly configuration: Configuration
  readonly keys: JWTVerifyGetKey
}

export class OidcProvider {
  readonly options: ProviderOptions
  #discovered: Promise<Discovered> | null = null
  /** When it is asked again. */
  #staleAt = 0

  constructor(options: ProviderOptions) {
    this.options = options
  }

  /** The address a browser is sent to. @throws Failure sso_unreachable */
  async signInUrl(redirectUri: string, { verifier, state, nonce }: Exchange): Promise<string> {
    const { library, configuration } = await this.#discover()
    const url = library.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: this.options.scope,
      state,
      nonce,
      code_challenge: await library.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(this.options.prompt !== null && { prompt: this.options.prompt })
    })
    return url.href
  }

  /**
   * Exchanges the code that a browser has brought.
   * @param address where the provider has sent it: redirect_uri and the query
   * @throws Failure sso_unreachable; any other error when it is not accepted
   */
  async exchange(address: URL, { verifier, state, nonce }: Exchange): Promise<[Identity, ProviderTokens]> {
    const { library, configuration } = await this.#discover()
    const answer = await library.authorizationCodeGrant(configuration, address, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true
    })
    return [await this.#identityOf(answer), { refresh: answer.refresh_token ?? null, id: answer.id_token ?? null }]
  }

  /**
   * Asks whether a session still stands.
   * @returns 'refused': it does not; an identity of null: the provider says no more than that it does
   * @throws what says nothing about the session: the provider cannot be reached, or does not know us
   */
  async refresh(tokens: ProviderTokens): Promise<[Identity | null, ProviderTokens] | 'refused'> {
    const { library, configuration } = await this.#discover()
    try {
      const answer = await library.refreshTokenGrant(configuration, tokens.refresh ?? '')
      const kept = { refresh: answer.refresh_token ?? tokens.refresh, id: answer.id_token ?? tokens.id }
      return [answer.id_token === undefined ? null : await this.#identityOf(answer), kept]
    } catch (error) {
      if (error instanceof library.ResponseBodyError && error.error === 'invalid_grant') return 'refused'
      throw error
    }
  }

  /** Where a browser ends the session at the provider too; null: the provider has no such address. */
  async signOutUrl({ id }: ProviderTokens, returnTo: string): Promise<string | null> {
    const { library, configuration } = await this.#discover()
    if (configuration.serverMetadata().end_session_endpoint === undefined) return null
    const parameters = { post_logout_redirect_uri: returnTo, ...(id !== null && { id_token_hint: id }) }
    return library.buildEndSessionUrl(configuration, parameters).href
  }

  /**
   * Reads a logout token [OpenID Connect Back-Channel Logout 2.6].
   * @throws Error when it is none of this provider's for us
   */
  async readLogoutToken(text: string): Promise<{ readonly subject: string | null; readonly sid: string | null }> {
    const payload = await this.#verified(text, { maxTokenAge: LOGOUT_AGE_S, clockTolerance: TIMEOUT_S })
    const { events, sub, sid, nonce } = payload
    const isLogout = typeof events === 'object' && events !== null && LOGOUT_EVENT in events
    if (!isLogout || nonce !== undefined || (typeof sub !== 'string' && typeof sid !== 'string'))
      throw new Error('it is no logout token')
    return { subject: typeof sub === 'string' ? subjectOf(sub) : null, sid: typeof sid === 'string' ? sid : null }
  }

  async #identityOf(answer: TokenEndpointResponse): Promise<Identity> {
    // Verified by its signature too: the library takes TLS for proof.
    const claims = await this.#verified(answer.id_token ?? '', { clockTolerance: TIMEOUT_S })
    const subject = claims.sub ?? ''
    const { groups_claim } = this.options
    const isWhole = claims.email !== undefined && (claims[groups_claim] !== undefined || !this.#needsGroups)
    const more = isWhole ? {} : await this.#userInfo(answer.access_token, subject)
    const { email, email_verified, [groups_claim]: groups } = { ...claims, ...more }
    return {
      subject: subjectOf(subject),
      email: typeof email === 'string' ? email : null,
      isVerified: email_verified !== false && email_verified !== 'false',
      groups: groupsIn(groups),
      sid: typeof claims.sid === 'string' ? claims.sid : null
    }
  }

  get #needsGroups(): boolean {
    return this.options.groups.length > 0 || this.options.allowed_groups.length > 0
  }

  async #userInfo(accessToken: string, subject: string): Promise<JWTPayload> {
    const { library, configuration } = await this.#discover()
    if (configuration.serverMetadata().userinfo_endpoint === undefined) return {}
    return { ...(await library.fetchUserInfo(configuration, accessToken, subject)) }
  }

  async #verified(text: string, options: { maxTokenAge?: number; clockTolerance: number }): Promise<JWTPayload> {
    const { configuration, keys } = await this.#discover()
    const { issuer } = configuration.serverMetadata()
    const { payload } = await jwtVerify(text, keys, { ...options, issuer, audience: this.options.client_id })
    return payload
  }

  /** @throws Failure sso_unreachable */
  #discover(): Promise<Discovered> {
    if (this.#discovered && Date.now() < this.#staleAt) return this.#discovered
    this.#staleAt = Date.now() + DISCOVERY_MS
    const asked = this.#ask().catch((error: unknown) => {
      this.#staleAt = Date.now() + PAUSE_MS
      throw fail('sso_unreachable', { reason: messageOf(error) })
    })
    asked.catch(() => {})
    this.#discovered = asked
    return asked
  }

  async #ask(): Promise<Discovered> {
    const library = await loadLibrary()
    const { issuer, client_id, client_secret } = this.options
    const isPlain = new URL(issuer).protocol === 'http:'
    const configuration = await library.discovery(
      new URL(issuer),
      client_id,
      undefined,
      client_secret === null ? library.None() : library.ClientSecretPost(client_secret),
      {
        timeout: TIMEOUT_S,
        [library.customFetch]: boundedFetch,
        ...(isPlain && { execute: [library.allowInsecureRequests] })
      }
    )
    const { jwks_uri } = configuration.serverMetadata()
    if (jwks_uri === undefined) throw new Error('it names no keys')
    const keys = createRemoteJWKSet(new URL(jwks_uri), {
      cooldownDuration: KEYS_PAUSE_MS,
      timeoutDuration: TIMEOUT_S * 1000,
      [customFetch]: boundedFetch
    })
    return { library, configuration, keys }
  }
}

/** As fetch; an answer that is too long fails while it arrives. The libraries would keep all of it until their timeout. */
async function boundedFetch(url: string, options: RequestInit): Promise<Response> {
  const answer = await fetch(url, options)
  let left = ANSWER_BYTES
  const bounded = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      left -= chunk.length
      if (left < 0) throw new Error(`an answer of more than ${ANSWER_BYTES} bytes`)
      controller.enqueue(chunk)
    }
  })
  return new Response(answer.body?.pipeThrough(bounded) ?? null, answer)
}

/** What a provider calls somebody, as it is stored: a long one by its digest. */
function subjectOf(subject: string): string {
  return subject.length <= SUBJECT_LENGTH_MAX ? subject : createHash('sha256').update(subject).digest('hex')
}

function groupsIn(claim: unknown): string[] {
  const given: readonly unknown[] = Array.isArray(claim) ? claim : typeof claim === 'string' ? [claim] : []
  const texts = given.filter((one) => typeof one === 'string' && one !== '' && one.length <= GROUP_LENGTH_MAX)
  return [...new Set(texts as string[])].slice(0, GROUPS_MAX)
}
