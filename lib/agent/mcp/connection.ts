// The connection to one tool server: opened in the background and reopened when it breaks.
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  CallToolResult,
  Client,
  JsonSchemaValidator,
  Tool as McpTool,
  Transport
} from '@modelcontextprotocol/client'
import { messageOf } from '../../base/errors.ts'
import { IMAGE_BYTES, imageTypeOf } from '../../base/image.ts'
import { backoffMs, unlessAborted, withTimeout } from '../../base/waiting.ts'
import type { JsonObject } from '../../base/types.ts'
import type { Picture } from '../pictures.ts'
import type { ToolAnswer } from '../tool.ts'
import type { Egress } from './egress.ts'
import { withBounds } from './message-bounds.ts'
import { secretsIn, withoutSecrets } from './secrets.ts'
import type { McpOAuth, McpServerConfig } from './command-policy.ts'

export interface McpStatus {
  readonly state: 'off' | 'connecting' | 'ready' | 'failed'
  readonly last_error: string | null
  /** Names on the server. */
  readonly tools: readonly string[]
}

export interface McpConnectionOptions {
  readonly egress: Egress
  /** Of its OAuth, which outlive the connection; null: it has none. */
  readonly tokens: McpTokens | null
  readonly connectTimeoutMs: number
  readonly callTimeoutMs: number
  /** The status has changed, also while connecting. */
  onChange(status: McpStatus): void
}

/** Retry delay in ms, doubled up to the maximum. */
const RETRY = { first: 1_000, most: 60_000 }
/** Characters kept of a tool server's messages. */
const ERROR_MAX = 500
/** Tools of one server, and the characters of their definitions as JSON: every request to a model carries all of them. */
const TOOLS_MAX = 256
const DEFINITIONS_MAX = 256 * 1024
/** Results go to a model as they are. Checking them would run patterns of the server's choice, which may take for ever, over texts of its own. */
const UNCHECKED = {
  getValidator<T>(): JsonSchemaValidator<T> {
    // What it is said to be is the server's word.
    return (input) => ({ valid: true, data: input as T, errorMessage: undefined })
  }
}

export class McpConnection {
  readonly config: McpServerConfig
  readonly #options: McpConnectionOptions
  readonly #stop = new AbortController()
  #client: Client | null = null
  #tools: readonly McpTool[] = []
  #status: McpStatus['state'] = 'connecting'
  #lastError: string | null = null
  readonly #done: Promise<void>
  readonly #secrets: readonly string[]

  /** Starts connecting in the background. */
  constructor(config: McpServerConfig, options: McpConnectionOptions) {
    this.config = config
    this.#options = options
    this.#secrets = secretsIn(config)
    this.#done = this.#keepOpen()
  }

  get status(): McpStatus {
    return { state: this.#status, last_error: this.#lastError, tools: this.#tools.map(({ name }) => name) }
  }
  /** Tools of an open connection; none otherwise. */
  get tools(): readonly McpTool[] {
    return this.#status === 'ready' ? this.#tools : []
  }

  /**
   * @returns the answer's text, and its images
   * @throws Error for a tool that failed, in its own words; the signal's reason after an abort
   */
  async call(name: string, args: JsonObject, signal: AbortSignal): Promise<ToolAnswer> {
    const client = this.#client
    if (!client || this.#status !== 'ready') throw new Error('The tool server is not connected')
    const { callTimeoutMs } = this.#options
    // Without `resetTimeoutOnProgress`, so that reporting progress for ever does not help.
    const result = await client.callTool({ name, arguments: args }, { signal, timeout: callTimeoutMs })
    const text = textOf(result)
    if (result.isError) throw new Error(text === '' ? 'The tool failed without a message' : text)
    return { content: text, pictures: picturesIn(result) }
  }

  /** Ends the connection and, over stdio, the process behind it. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#client?.close().catch(() => {})
    await this.#done
  }

  async #keepOpen(): Promise<void> {
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted; ) {
      const begun = performance.now()
      try {
        const { ended } = await this.#open()
        this.#failed(await ended)
      } catch (error) {
        this.#failed(error)
      }
      if (signal.aborted) break
      // Connections that keep breaking soon also count as failures.
      failures = performance.now() - begun > RETRY.most ? 1 : failures + 1
      await sleep(backoffMs(failures - 1, RETRY), undefined, { signal, ref: false }).catch(() => {})
    }
    this.#set('off')
  }

  /** Resolves when the connection is open; `ended` resolves with the reason when it is over. */
  async #open(): Promise<{ readonly ended: Promise<Error> }> {
    this.#set('connecting')
    // Not before there is a server: it is a seventh of what a gateway would load, and most have none.
    const { Client, SdkError, SdkErrorCode } = await import('@modelcontextprotocol/client')
    const transport = withBounds(await this.#transport())
    this.#stop.signal.throwIfAborted()
    const client = new Client(
      { name: 'colloquy', version: '1' },
      {
        jsonSchemaValidator: UNCHECKED,
        listChanged: { tools: { onChanged: (_error, tools) => tools && this.#offer(tools) } }
      }
    )
    let last: Error | null = null
    const ended = new Promise<Error>((resolve) => {
      client.onerror = (error) => {
        last = error
      }
      client.onclose = () => resolve(last ?? new Error('The tool server closed the connection'))
    })
    this.#client = client
    const timeout = this.#options.connectTimeoutMs
    const late = () => new Error(`The tool server did not answer within ${timeout} ms`)
    const inTime = <T>(work: Promise<T>) => withTimeout(unlessAborted(work, this.#stop.signal), timeout, late)
    try {
      // The client's own timeout is per request, and some transports wait before their first one.
      await inTime(client.connect(transport, { timeout }))
      const { tools } = await inTime(client.listTools(undefined, { timeout }))
      this.#offer(tools)
    } catch (error) {
      await client.close().catch(() => {})
      // The transport knows why it closed.
      throw SdkError.isInstance(error) && error.code === SdkErrorCode.ConnectionClosed ? (last ?? error) : error
    }
    return { ended }
  }

  #offer(tools: readonly McpTool[]): void {
    this.#tools = withinBounds(tools)
    const left = tools.length - this.#tools.length
    this.#lastError = left === 0 ? null : `It offers ${tools.length} tools; the last ${left} are left out: ${BOUNDS}`
    this.#set('ready')
  }

  #failed(error: unknown): void {
    if (this.#stop.signal.aborted) return
    const said = messageOf(error)
    this.#lastError = withoutSecrets(said, this.#secrets).slice(0, ERROR_MAX)
    this.#set('failed')
  }

  #set(state: McpStatus['state']): void {
    this.#status = state
    this.#options.onChange(this.status)
  }

  async #transport(): Promise<Transport> {
    const { type, command, args, env, url, headers } = this.config
    if (type === 'stdio') {
      const server = { command: command ?? '', args: [...args], env: { ...env }, secrets: this.#secrets }
      // Windows knows no process groups.
      if (process.platform === 'win32') {
        const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
        return new StdioClientTransport({ ...server, stderr: 'ignore' })
      }
      const { StdioTransport } = await import('./stdio.ts')
      return new StdioTransport(server)
    }
    const { SSEClientTransport, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
    const options = { requestInit: { headers: { ...headers } }, fetch: this.#fetch() }
    const address = new URL(url ?? '')
    return type === 'sse'
      ? new SSEClientTransport(address, options)
      : new StreamableHTTPClientTransport(address, options)
  }

  #fetch(): Egress['fetch'] {
    const { tokens, egress } = this.#options
    const { fetch } = egress
    if (tokens === null) return fetch
    const send = async (input: string | URL, init?: RequestInit) => {
      const all = new Headers(init?.headers)
      all.set('Authorization', await tokens.header())
      return fetch(input, { ...init, headers: all })
    }
    return async (input, init) => {
      const response = await send(input, init)
      if (response.status !== 401) return response
      // The token may have been revoked: retry once with a new one.
      tokens.drop()
      await response.body?.cancel()
      return send(input, init)
    }
  }
}

const BOUNDS = `a server has at most ${TOOLS_MAX}, with definitions of ${DEFINITIONS_MAX} characters together.`

/** The first tools, up to the bounds. */
function withinBounds(tools: readonly McpTool[]): readonly McpTool[] {
  let length = 0
  const end = tools.slice(0, TOOLS_MAX).findIndex(({ name, description, inputSchema }) => {
    length += JSON.stringify({ name, description, inputSchema }).length
    return length > DEFINITIONS_MAX
  })
  return tools.slice(0, end < 0 ? TOOLS_MAX : end)
}

/** The readable part of a result, which names binary data. */
function textOf({ content, structuredContent }: CallToolResult): string {
  const parts = content.map((block) => {
    if (block.type === 'text') return block.text
    if (block.type === 'image' || block.type === 'audio')
      return `[${block.type} ${block.mimeType}, ${block.data.length} base64 characters]`
    if (block.type === 'resource_link') return `[resource ${block.uri}]`
    return 'text' in block.resource ? block.resource.text : `[resource ${block.resource.uri}]`
  })
  if (parts.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent)
  return parts.join('\n')
}

/** Images that models take, by their bytes: what a server calls an image may be none, and a model's server refuses the whole call for it. */
function picturesIn({ content }: CallToolResult): Picture[] {
  return content.flatMap((block) => {
    const data = block.type === 'image' ? block.data : block.type === 'resource' ? blobIn(block.resource) : ''
    if (data.length > IMAGE_CHARACTERS) return []
    const bytes = Buffer.from(data, 'base64')
    const mimeType = imageTypeOf(bytes)
    return mimeType === null || bytes.length > IMAGE_BYTES ? [] : [{ mimeType, bytes }]
  })
}

/** Of the largest in base64, with the line ends that some encoders put in. */
const IMAGE_CHARACTERS = IMAGE_BYTES * 1.5

function blobIn(resource: object): string {
  return 'blob' in resource && typeof resource.blob === 'string' ? resource.blob : ''
}

// ----------------------------------------------------------------------------------------------------
// OAuth tokens for tool servers, obtained with the configured credentials and cached until shortly before they expire.

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
