// The configured tool servers: their connections, and their tools under names that all model servers accept. Changes affect new
// runs; running ones keep their connections.
import { createHash } from 'node:crypto'
import type { Tool, Toolbox, ToolSource } from '../tool.ts'
import type { JsonObject } from '../../base/types.ts'
import { McpConnection, type McpConnectionOptions, type McpStatus, McpTokens } from './connection.ts'
import type { McpOAuth, McpServerConfig, McpServerConfigs } from './command-policy.ts'

interface ToolServersOptions extends Omit<McpConnectionOptions, 'onChange' | 'tokens'> {
  readonly log: { warn(fields: object, text: string): void }
  /** Asked before a run: what another process has configured meanwhile; null: nothing new. Default: nobody else configures them. */
  readonly changed?: () => Promise<McpServerConfigs | null>
}

/** Model servers refuse longer names. */
const NAME_MAX = 64
/** How long a new run waits for servers still connecting, in ms. One that goes on waits for the tools that it had. */
const SETTLE_MS = 500

const WARNINGS = { failed: 'a tool server is not available', ready: 'a tool server offers too many tools' }

interface Entry {
  readonly connection: McpConnection
  readonly key: string
  /** Runs using it. */
  users: number
  /** No longer configured: closed when the last run using it is over. */
  retired: boolean
}

export class ToolServers implements ToolSource {
  readonly #options: ToolServersOptions
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new Set<Promise<void>>()
  readonly #waiting = new Set<() => void>()
  /** By their configuration: who has renewed a refresh token knows the only one that counts, also after connecting anew. */
  readonly #tokens = new Map<string, McpTokens>()

  constructor(options: ToolServersOptions) {
    this.#options = options
  }

  /** Opens new servers, closes removed ones, keeps unchanged ones. Returns at once whether any was new, changed or removed. */
  configure(configs: McpServerConfigs): boolean {
    let hasChanged = false
    for (const [name, entry] of this.#entries) {
      const config = Object.hasOwn(configs, name) ? configs[name] : undefined
      if (config?.enabled && keyOf(config) === entry.key) continue
      this.#entries.delete(name)
      hasChanged = true
      entry.retired = true
      this.#closeIfUnused(entry)
    }
    for (const [name, config] of Object.entries(configs)) {
      if (!config.enabled || this.#entries.has(name)) continue
      hasChanged = true
      this.#entries.set(name, this.#opened(name, config))
    }
    return hasChanged
  }

  /** Takes what another process has configured. */
  async refresh(): Promise<void> {
    const configs = await this.#options.changed?.().catch((error: unknown) => {
      this.#options.log.warn({ err: error }, 'the tool servers that another process has configured cannot be read')
      return null
    })
    if (configs) this.configure(configs)
  }

  status(name: string): McpStatus {
    return this.#entries.get(name)?.connection.status ?? { state: 'off', last_error: null, tools: [] }
  }

  async open(_context: JsonObject = {}, isResumed = false): Promise<Toolbox> {
    if (this.#options.changed) await this.refresh()
    await this.#settled(isResumed ? this.#options.connectTimeoutMs : SETTLE_MS)
    const used = [...this.#entries].map(([name, entry]) => {
      entry.users++
      return { name, entry }
    })
    let isOpen = true
    return {
      tools: used.flatMap(({ name, entry }) => toolsOf(name, entry.connection)),
      close: () => {
        if (!isOpen) return
        isOpen = false
        for (const { entry } of used) {
          entry.users--
          this.#closeIfUnused(entry)
        }
      }
    }
  }

  /** Ends all connections and the processes behind them. */
  async close(): Promise<void> {
    for (const entry of this.#entries.values()) this.#close(entry)
    this.#entries.clear()
    await Promise.all(this.#closing)
  }

  #opened(name: string, config: McpServerConfig): Entry {
    let told: string | null = null
    const connection = new McpConnection(config, {
      ...this.#options,
      tokens: config.oauth?.enabled ? this.#tokensOf(config.oauth) : null,
      onChange: ({ state, last_error }) => {
        if (last_error !== null && last_error !== told && (state === 'failed' || state === 'ready'))
          this.#options.log.warn({ server: name, error: last_error }, WARNINGS[state])
        told = last_error
        for (const wake of this.#waiting) wake()
      }
    })
    return { connection, key: keyOf(config), users: 0, retired: false }
  }

  #tokensOf(oauth: McpOAuth): McpTokens {
    const key = JSON.stringify(oauth)
    const tokens = this.#tokens.get(key) ?? new McpTokens(oauth, this.#options.egress.fetch)
    this.#tokens.set(key, tokens)
    return tokens
  }

  #closeIfUnused(entry: Entry): void {
    if (entry.retired && entry.users === 0) this.#close(entry)
  }

  #close({ connection }: Entry): void {
    const closing = connection.close().finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }

  /** Waits until nothing is connecting any more. */
  async #settled(timeoutMs: number): Promise<void> {
    const isConnecting = () =>
      [...this.#entries.values()].some(({ connection }) => connection.status.state === 'connecting')
    if (!isConnecting()) return
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const wake = () => {
        if (!isConnecting()) done()
      }
      const timer = setTimeout(done, timeoutMs)
      this.#waiting.add(wake)
    })
  }
}

function toolsOf(server: string, connection: McpConnection): Tool[] {
  return connection.tools.map(({ name, description, inputSchema, annotations }) => ({
    name: nameOf(server, name),
    isRepeatable: annotations?.readOnlyHint === true || annotations?.idempotentHint === true,
    description: description ?? name,
    // It was received as JSON.
    parameters: inputSchema as JsonObject,
    run: (args, { signal }) => connection.call(name, args, signal)
  }))
}

/** `<server>_<tool>` in allowed characters; changed or cut names get a hash, so that they stay unique. */
function nameOf(server: string, tool: string): string {
  const whole = `${server}_${tool}`
  const name = whole.replace(/[^A-Za-z0-9_-]/g, '_')
  if (name === whole && name.length <= NAME_MAX) return name
  const mark = createHash('sha256')
    .update(JSON.stringify([server, tool]))
    .digest('hex')
    .slice(0, 8)
  return `${name.slice(0, NAME_MAX - mark.length - 1)}_${mark}`
}

function keyOf(config: McpServerConfig): string {
  return JSON.stringify({ ...config, description: '' })
}
