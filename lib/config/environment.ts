// The environment: variables named in the file, and variables and flags that override it.
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import { isTree, join, put, type Tree } from './tree.ts'

export type Env = Readonly<Record<string, string | undefined>>

/** Command-line flags. */
export interface Flags {
  readonly home?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | string | undefined
  /** langgraph.json or its folder: its graphs are the agent. */
  readonly langgraph?: string | undefined
  readonly watch?: boolean | undefined
}

/** Expands a leading `~`, which no shell does in a file or after `--home=`. */
export function absolute(from: string, path: string): string {
  return resolve(from, path.replace(/^~(?=$|\/)/, homedir()))
}

/** Replaces every string `$NAME`, and `${NAME}` anywhere in a string, by that variable, at any depth. */
export function withVariables(value: unknown, env: Env, path: string, problems: string[]): unknown {
  if (typeof value === 'string') return variable(value, env, path, problems)
  if (Array.isArray(value)) return value.map((item, i) => withVariables(item, env, `${path}[${i}]`, problems))
  if (!isTree(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, withVariables(inner, env, join(path, name), problems)])
  )
}

function variable(value: string, env: Env, path: string, problems: string[]): string {
  // Without braces it has to be the whole text: a password may contain a dollar.
  return value.replace(/^\$([A-Za-z_]\w*)$|\$\{([A-Za-z_]\w*)\}/g, (written, alone?: string, inside?: string) => {
    const name = alone ?? inside ?? ''
    const found = env[name]
    if (found === undefined) problems.push(`${path} is ${written}, but the environment variable ${name} is not set.`)
    return found ?? written
  })
}

/**
 * Applies environment and flags over the file's options.
 * @returns by path: the name of the flag or variable a value came from
 */
export function override(options: Tree, flags: Flags, env: Env): Map<string, string> {
  const names = new Map<string, string>()
  const set = (path: string, name: string, value: unknown) => {
    if (value === undefined || value === '') return
    put(options, path, value)
    names.set(path, `${name} (${path})`)
  }
  set('home', 'COLLOQUY_HOME', env.COLLOQUY_HOME)
  set('server.host', 'GATEWAY_HOST', env.GATEWAY_HOST)
  set('server.port', 'GATEWAY_PORT', env.GATEWAY_PORT)
  set('server.cors_origins', 'GATEWAY_CORS_ORIGINS', env.GATEWAY_CORS_ORIGINS)
  set('server.trusted_proxies', 'AUTH_TRUSTED_PROXIES', env.AUTH_TRUSTED_PROXIES)
  set('auth.jwt_secret', 'AUTH_JWT_SECRET', env.AUTH_JWT_SECRET)
  set('home', '--home', flags.home)
  set('server.host', '--host', flags.host)
  set('server.port', '--port', flags.port)
  set('agent.config', '--langgraph', flags.langgraph && absolute('.', flags.langgraph))
  set('agent.runtime', '--langgraph', flags.langgraph && 'graphs')
  set('agent.watch', '--watch', flags.watch)
  if (isEmpty(options.models)) set('models', 'OPENAI_API_KEY', modelOfEnvironment(env))
  return names
}

function isEmpty(models: unknown): boolean {
  return models === undefined || models === null || (Array.isArray(models) && models.length === 0)
}

// A key alone configures a model: the shortest way from `npm start` to a real answer.
function modelOfEnvironment(env: Env): unknown {
  if (!env.OPENAI_API_KEY) return undefined
  const model = env.OPENAI_MODEL || 'gpt-4o-mini'
  return [
    { name: 'main', provider: 'openai', base_url: env.OPENAI_BASE_URL || null, api_key: env.OPENAI_API_KEY, model }
  ]
}
