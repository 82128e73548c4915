// The configuration of a tool server, as in the API and the file [contract 6.5].
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

/** How to get a token for the server without a user. */
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
  /** Names of members in the token response. */
  readonly token_field: string
  readonly token_type_field: string
  readonly expires_in_field: string
  readonly default_token_type: string
  /** Seconds before expiry at which a token is renewed. */
  readonly refresh_skew_seconds: number
  /** Secret values. */
  readonly extra_token_params: Readonly<Record<string, string>>
}

export type McpServerConfigs = Readonly<Record<string, McpServerConfig>>
