// OAuth tokens for tool servers, obtained with the configured credentials and cached until shortly before they expire.
import type { McpOAuth } from './server-config.ts'

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/** Default lifetime of a token in seconds. */
const LIFETIME_S = 3600
const TIMEOUT_MS = 10_000

export class McpTokens {
  readonly #config: McpOAuth
  readonly #fetch: Fetch
  #refreshToken: string | null
  #current: { readonly header: string; readonly until: number } | null = null
  #pending: Promise<string> | null = null

  constructor(config: McpOAuth, fetch: Fetch) {
    this.#config = config
    this.#fetch = fetch
    this.#refreshToken = config.refresh_token
  }

  /** The value of an Authorization header. @throws Error without any secret in its text */
  async header(now = Date.now()): Promise<string> {
    if (this.#current && now < this.#current.until) return this.#current.header
    // Concurrent callers share one request.
    this.#pending ??= this.#request(now).finally(() => {
      this.#pending = null
    })
    return this.#pending
  }

  /** The server rejected it: the next call requests a new one. */
  drop(): void {
    this.#current = null
  }

  async #request(now: number): Promise<string> {
    const { token_url, token_field, token_type_field, expires_in_field, default_token_type } = this.#config
    const response = await this.#fetch(token_url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'application/json' },
      body: this.#form().toString(),
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    if (!response.ok) throw new Error(`The token server answered ${response.status}`)
    // An event stream has no size limit.
    if (/event-stream/i.test(response.headers.get('content-type') ?? ''))
      throw new Error('The token server sent a stream')
    const answer: unknown = await response.json()
    const fields = typeof answer === 'object' && answer !== null ? new Map(Object.entries(answer)) : new Map()
    const token: unknown = fields.get(token_field)
    if (typeof token !== 'string' || token === '') throw new Error(`The token server sent no "${token_field}"`)
    const renewed: unknown = fields.get('refresh_token')
    // Some servers rotate refresh tokens, and accept each only once.
    if (typeof renewed === 'string') this.#refreshToken = renewed
    const type: unknown = fields.get(token_type_field)
    const seconds = Number(fields.get(expires_in_field) ?? LIFETIME_S)
    const header = `${typeof type === 'string' && type !== '' ? type : default_token_type} ${token}`
    const lifetime = (Number.isFinite(seconds) ? seconds : LIFETIME_S) - this.#config.refresh_skew_seconds
    this.#current = { header, until: now + Math.max(0, lifetime) * 1000 }
    return header
  }

  #form(): URLSearchParams {
    const { grant_type, client_id, client_secret, scope, audience, extra_token_params } = this.#config
    const form = new URLSearchParams({ ...extra_token_params, grant_type })
    const optional = {
      client_id,
      client_secret,
      scope,
      audience,
      refresh_token: grant_type === 'refresh_token' ? this.#refreshToken : null
    }
    for (const [name, value] of Object.entries(optional)) if (value) form.set(name, value)
    return form
  }
}
