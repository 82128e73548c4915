// The environment: variables named in the file, and variables and flags that override it.
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import { parseDocument } from 'yaml'
import { codeOf } from '../base/errors.ts'

// --------------------------------------------------------- Options by name as a file has them, before validation

type Tree = { [name: string]: unknown }

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The path of an option as people write it: `server.port`. */
export function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

/** Sets the option at `path`. */
function put(options: Tree, path: string, value: unknown): void {
  const [name = '', ...inner] = path.split('.')
  if (inner.length === 0) {
    options[name] = value
    return
  }
  const part = options[name]
  const copy = isTree(part) ? { ...part } : {}
  put(copy, inner.join('.'), value)
  options[name] = copy
}

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

/** Variables that set an option. */
const VARIABLES: Readonly<Record<string, string>> = {
  COLLOQUY_HOME: 'home',
  GATEWAY_HOST: 'server.host',
  GATEWAY_PORT: 'server.port',
  GATEWAY_CORS_ORIGINS: 'server.cors_origins',
  AUTH_TRUSTED_PROXIES: 'server.trusted_proxies',
  AUTH_JWT_SECRET: 'auth.jwt_secret',
  DATABASE_URL: 'database.postgres_url'
}

/** Every variable that is read. A test looks for each of them in the operator's document. */
export const READ: readonly string[] = [
  ...Object.keys(VARIABLES),
  'COLLOQUY_CONFIG',
  'OPENAI_API_KEY',
  'OPENAI_BASE_URL',
  'OPENAI_MODEL'
]

/** Ours, of clients and tests, and nothing that a server reads. */
const OF_CLIENTS = /^COLLOQUY_(TOKEN|URL|COMMIT|FAST|LONG|AGAIN|HOSTILE|SEED|LOSS_RUNS)$/

/** Variables that other servers read, and how each is said here. */
const OF_OTHERS: Readonly<Record<string, string>> = {
  POSTGRES_URL: 'database: { backend: postgres, postgres_url: $POSTGRES_URL }',
  POSTGRES_URI: 'database: { backend: postgres, postgres_url: $POSTGRES_URI }',
  PORT: 'server: { port: $PORT }',
  LOG_LEVEL: 'log_level: $LOG_LEVEL',
  JWT_SECRET: 'auth: { jwt_secret: $JWT_SECRET }',
  CORS_ORIGINS: 'server: { cors_origins: $CORS_ORIGINS }',
  TRUSTED_PROXIES: 'server: { trusted_proxies: $TRUSTED_PROXIES }'
}

/** The variable of an option: `auth.oidc.recheck_s` is COLLOQUY_AUTH__OIDC__RECHECK_S. */
export function variableOf(path: string): string {
  return `COLLOQUY_${path.toUpperCase().replaceAll('.', '__')}`
}

/** Sentences about variables that are set for us, it seems, and that nothing reads. `used`: those that were read. */
export function unusedVariables(env: Env, used: ReadonlySet<string>): string[] {
  const isIdle = (name: string) => Boolean(env[name]) && !used.has(name) && !READ.includes(name)
  const ours = Object.keys(env).filter((name) => /^(COLLOQUY|GATEWAY)_/.test(name) && !OF_CLIENTS.test(name))
  return [
    ...ours
      .filter(isIdle)
      .map(
        (name) =>
          `the environment variable ${name} is not used: there are ${READ.join(', ')}, and COLLOQUY_SECTION__NAME for every option`
      ),
    ...Object.entries(OF_OTHERS)
      .filter(([name]) => isIdle(name))
      .map(([name, yaml]) => `the environment variable ${name} is not used: colloquy.yaml can, with ${yaml}`)
  ]
}

/** Expands a leading `~`, which no shell does in a file or after `--home=`. */
export function absolute(from: string, path: string): string {
  return resolve(from, path.replace(/^~(?=$|\/)/, homedir()))
}

/** Replaces every string `$NAME`, and `${NAME}` anywhere in a string, by that variable, at any depth. */
export function withVariables(value: unknown, env: Env, path: string, problems: string[], used: Set<string>): unknown {
  if (typeof value === 'string') return variable(value, env, path, problems, used)
  if (Array.isArray(value)) return value.map((item, i) => withVariables(item, env, `${path}[${i}]`, problems, used))
  if (!isTree(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, withVariables(inner, env, join(path, name), problems, used)])
  )
}

function variable(value: string, env: Env, path: string, problems: string[], used: Set<string>): string {
  // Without braces it has to be the whole text: a password may contain a dollar.
  return value.replace(/^\$([A-Za-z_]\w*)$|\$\{([A-Za-z_]\w*)\}/g, (written, alone?: string, inside?: string) => {
    const name = alone ?? inside ?? ''
    used.add(name)
    const found = textOf(env, name, problems, used)
    if (found === undefined) problems.push(`${path} is ${written}, but the environment variable ${name} is not set.`)
    return found ?? written
  })
}

/** A variable, or what the file holds that NAME_FILE names, as container platforms hand out secrets; undefined: neither is set. */
function textOf(env: Env, name: string, problems: string[], used: Set<string>): string | undefined {
  const file = env[`${name}_FILE`]
  if (env[name] !== undefined || !file) return env[name]
  used.add(`${name}_FILE`)
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    const code = codeOf(error) ?? String(error)
    problems.push(`${name}_FILE names ${file}, which cannot be read (${code}).`)
    return undefined
  }
}

/** A variable as `textOf` finds it. @throws Error when its file cannot be read */
export function variableText(env: Env, name: string): string | undefined {
  const problems: string[] = []
  const text = textOf(env, name, problems, new Set())
  if (problems.length > 0) throw new Error(problems.join(' '))
  return text
}

/** What a list or an object is in a variable: JSON, or YAML on one line. Any other text is itself. @throws Error as `valueIn` */
function parsedValue(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text
  const document = parseDocument(text)
  return document.errors.length > 0 ? text : valueIn(document)
}

/** The value of a YAML document. @throws Error for a bad alias */
export function valueIn(document: { toJS(): unknown }): unknown {
  const value = document.toJS()
  // Throws for what is within itself.
  JSON.stringify(value)
  return value
}

export const BAD_ALIAS = 'an alias (*name) has no anchor (&name), too many, or stands within it'

interface Overriding {
  /** Of every option, by its path: the type of its schema. */
  readonly types: ReadonlyMap<string, string>
  readonly flags: Flags
  readonly env: Env
  readonly problems: string[]
  /** Variables that are read are added. */
  readonly used: Set<string>
}

/**
 * Applies environment and flags over the file's options.
 * @returns by path: the name of the flag or variable a value came from
 */
export function override(options: Tree, { types, flags, env, problems, used }: Overriding): Map<string, string> {
  const names = new Map<string, string>()
  const set = (path: string, name: string, value: unknown) => {
    if (value === undefined || value === '') return
    put(options, path, value)
    names.set(path, `${name} (${path})`)
  }
  const setBy = (path: string, name: string) => {
    const text = textOf(env, name, problems, used)
    if (text === undefined || text === '') return
    used.add(name)
    try {
      // A password may begin with a bracket, and so may an address.
      const value = types.get(path) === 'string' ? text : parsedValue(text)
      set(path, name, value === text ? text : withVariables(value, env, path, problems, used))
    } catch {
      problems.push(`${name} (${path}): ${BAD_ALIAS}.`)
    }
  }
  for (const [name, path] of Object.entries(VARIABLES)) if (name !== 'DATABASE_URL') setBy(path, name)
  const isSet = (path: string) => valueAt(options, path) !== undefined && valueAt(options, path) !== null
  const backend = variableOf('database.backend')
  const isOurs = /^postgres(ql)?:/.test(textOf(env, 'DATABASE_URL', [], new Set()) ?? '')
  // A platform's database, unless somebody has chosen another one.
  if (isOurs && !isSet('database.postgres_url') && !isSet('database.backend') && !textOf(env, backend, [], new Set())) {
    setBy('database.postgres_url', 'DATABASE_URL')
    set('database.backend', 'DATABASE_URL', 'postgres')
  }
  for (const path of types.keys()) setBy(path, variableOf(path))
  set('home', '--home', flags.home)
  set('server.host', '--host', flags.host)
  set('server.port', '--port', flags.port)
  set('agent.config', '--langgraph', flags.langgraph && absolute('.', flags.langgraph))
  set('agent.runtime', '--langgraph', flags.langgraph && 'graphs')
  set('agent.watch', '--watch', flags.watch)
  if (isEmpty(options.models)) set('models', 'OPENAI_API_KEY', modelOfEnvironment(env, problems, used))
  return names
}

function valueAt(options: Tree, path: string): unknown {
  return path.split('.').reduce<unknown>((part, name) => (isTree(part) ? part[name] : undefined), options)
}

function isEmpty(models: unknown): boolean {
  return models === undefined || models === null || (Array.isArray(models) && models.length === 0)
}

// A key alone configures a model: the shortest way from `npm start` to a real answer.
function modelOfEnvironment(env: Env, problems: string[], used: Set<string>): unknown {
  const api_key = textOf(env, 'OPENAI_API_KEY', problems, used)
  if (!api_key) return undefined
  const model = textOf(env, 'OPENAI_MODEL', problems, used) || 'gpt-4o-mini'
  const base_url = textOf(env, 'OPENAI_BASE_URL', problems, used) || null
  return [{ name: 'main', provider: 'openai', base_url, api_key, model }]
}
