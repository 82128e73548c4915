// What an administrator says of a tool server, as the wire and the file have it [contract 6.5].
export interface McpServerConfig {
  readonly enabled: boolean
  readonly type: 'stdio' | 'sse' | 'http'
  /** stdio: one of the allowed launchers. */
  readonly command: string | null
  readonly args: readonly string[]
  /** Secret values. */
  readonly env: Readonly<Record<string, string>>
  /** sse and http. */
  readonly url: string | null
  /** Secret values. */
  readonly headers: Readonly<Record<string, string>>
  readonly oauth: McpOAuth | null
  readonly description: string
}

/** How a token for the server is got: without a person, so only by what we were given. */
export interface McpOAuth {
  readonly enabled: boolean
  readonly token_url: string
  readonly grant_type: 'client_credentials' | 'refresh_token'
  readonly client_id: string | null
  /** Secret. */
  readonly client_secret: string | null
  /** Secret. */
  readonly refresh_token: string | null
  readonly scope: string | null
  readonly audience: string | null
  /** Where the answer has what. */
  readonly token_field: string
  readonly token_type_field: string
  readonly expires_in_field: string
  readonly default_token_type: string
  /** Seconds before its end at which a token is renewed. */
  readonly refresh_skew_seconds: number
  /** Secret values. */
  readonly extra_token_params: Readonly<Record<string, string>>
}

export type McpServerConfigs = Readonly<Record<string, McpServerConfig>>

/** What stands in for a secret on the way out, and means "as it was" on the way in. */
export const MASK = '***'

/** A configuration that may be shown: every secret is a mask. */
export function masked(config: McpServerConfig): McpServerConfig {
  const { oauth } = config
  return {
    ...config,
    env: maskedValues(config.env),
    headers: maskedValues(config.headers),
    oauth: oauth && {
      ...oauth,
      client_secret: oauth.client_secret === null ? null : MASK,
      refresh_token: oauth.refresh_token === null ? null : MASK,
      extra_token_params: maskedValues(oauth.extra_token_params)
    }
  }
}

/** The same with masks replaced by what they stand for in `before`; a mask of nothing is dropped. */
export function unmasked(config: McpServerConfig, before: McpServerConfig | undefined): McpServerConfig {
  const { oauth } = config
  const old = before?.oauth ?? null
  return {
    ...config,
    env: unmaskedValues(config.env, before?.env),
    headers: unmaskedValues(config.headers, before?.headers),
    oauth: oauth && {
      ...oauth,
      client_secret: oauth.client_secret === MASK ? (old?.client_secret ?? null) : oauth.client_secret,
      refresh_token: oauth.refresh_token === MASK ? (old?.refresh_token ?? null) : oauth.refresh_token,
      extra_token_params: unmaskedValues(oauth.extra_token_params, old?.extra_token_params)
    }
  }
}

type Values = Readonly<Record<string, string>>

function maskedValues(values: Values): Values {
  return Object.fromEntries(Object.keys(values).map((name) => [name, MASK]))
}

function unmaskedValues(values: Values, before: Values = {}): Values {
  const kept = Object.entries(values).map(([name, value]) => [name, value === MASK ? before[name] : value] as const)
  return Object.fromEntries(kept.filter((entry): entry is readonly [string, string] => entry[1] !== undefined))
}
