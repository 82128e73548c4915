// The configuration: read once at start, where problems are reported as sentences. config/options.ts lists every
// option, with its default and what goes wrong without it.
import { isUtf8 } from 'node:buffer'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import * as v from 'valibot'
import { LineCounter, parseDocument } from 'yaml'
import { codeOf } from '../base/errors.ts'
import {
  absolute,
  BAD_ALIAS,
  type Env,
  type Flags,
  isTree,
  override,
  unusedVariables,
  valueIn,
  withVariables
} from './environment.ts'
import { checkKeys, typesOf, Wrong } from './keys.ts'
import type { ModuleOption } from './kinds.ts'
import { EVENT_BYTES_MIN, Options, type Parsed } from './options.ts'
import { isLoopbackName, networkOf } from '../base/networks.ts'

// ----------------------------------------- Problems of a configuration, as sentences for the person who wrote it

/** The configuration cannot be used; each problem is one sentence for the person who wrote it. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** @throws ConfigError when there is a problem */
function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigError(problems)
}

/** The options after defaults, environment and flags, with what follows from them filled in. */
export type Config = Readonly<Omit<Parsed, 'database' | 'run_events' | 'log'>> & {
  readonly log: Omit<Parsed['log'], 'level'> & { readonly level: NonNullable<Parsed['log']['level']> }
  /** The file that was read, or null. */
  readonly file: string | null
  /** Sentences about environment variables that nothing reads. */
  readonly unusedVariables: readonly string[]
  readonly database: Omit<Parsed['database'], 'sqlite_path'> & { readonly sqlite_path: string }
  readonly run_events: Omit<Parsed['run_events'], 'backend'> & {
    readonly backend: NonNullable<Parsed['run_events']['backend']>
  }
}

/** Where the configuration comes from: flags beat the environment, which beats the file. */
export interface ConfigSource extends Flags {
  /** --config; must exist when given. */
  readonly file?: string | undefined
  /** Default process.env. */
  readonly env?: Env | undefined
  /** What relative paths are relative to; default the working directory. */
  readonly cwd?: string | undefined
}

/**
 * Finds, reads and checks the configuration.
 * @throws ConfigError with every problem that could be seen together
 */
export function loadConfig(source: ConfigSource = {}): Config {
  const env = source.env ?? process.env
  const cwd = source.cwd ?? process.cwd()
  const { file, tree } = readFile(source.file || env.COLLOQUY_CONFIG, cwd)
  const problems: string[] = []
  const used = new Set<string>()
  const options = withVariables(tree, env, '', problems, used)
  if (!isTree(options)) throw new ConfigError([`${file} must hold options by name.`])
  const names = override(options, { types: typesOf(Options), flags: source, env, problems, used })
  const wrong = new Wrong(problems)
  checkKeys(Options, options, '', wrong)
  const parsed = v.safeParse(Options, options)
  // Both in one round: who mends a key need not come back for a value.
  for (const issue of parsed.issues ?? []) wrong.addIssue(issue, names)
  const isNamed = Boolean(source.file || env.COLLOQUY_CONFIG)
  const readable = parsed.success ? parsed.output : restOf(options, parsed.issues)
  const config = readable && complete(readable, file, cwd, unusedVariables(env, used))
  if (config !== null && readable !== null)
    wrong.addSentences([
      ...contradictions(config),
      // Those of AUTH_TRUSTED_PROXIES are skipped with a warning [Auth 9].
      ...(names.has('server.trusted_proxies') ? [] : badProxies(config)),
      ...(isNamed && !names.has('home') ? strayHome(config, readable.home, cwd) : [])
    ])
  if (config === null || problems.length > 0) throw new ConfigError(problems)
  return config
}

/** With defaults in the place of wrong values, as far as there are some: what is left can be held against each other in the same round. */
function restOf(options: object, issues: readonly v.BaseIssue<unknown>[]): Parsed | null {
  const rest = structuredClone(options)
  for (const { path } of issues) {
    let parent: unknown = rest
    for (const { key } of path?.slice(0, -1) ?? []) parent = isTree(parent) ? parent[String(key)] : undefined
    if (isTree(parent)) delete parent[String(path?.at(-1)?.key)]
  }
  const parsed = v.safeParse(Options, rest)
  return parsed.success ? parsed.output : null
}

/**
 * The configuration was named from another folder, and its relative home does not exist: an empty home in the wrong
 * place would look like lost data.
 */
function strayHome({ file, home }: Config, asWritten: string, cwd: string): string[] {
  const isRelative = absolute('/', asWritten) !== home
  if (file === null || !isRelative || resolve(cwd) === dirname(file) || existsSync(home)) return []
  return [
    `home is ${asWritten}, relative to the working directory ${cwd}, and there is none: start in the right folder, name it with --home, or make home absolute in ${file}.`
  ]
}

/** Resolves defaults that depend on other options, and makes every path absolute. */
function complete(parsed: Parsed, file: string | null, cwd: string, unusedVariables: readonly string[]): Config {
  const home = absolute(cwd, parsed.home)
  const { sqlite_path } = parsed.database
  const beside = file === null ? cwd : dirname(file)
  const backend = located(parsed.database.backend, beside)
  return {
    ...parsed,
    auth: {
      ...parsed.auth,
      registration: parsed.auth.allow_registration ? parsed.auth.registration : 'closed'
    },
    log: { ...parsed.log, level: parsed.log.level ?? parsed.log_level },
    file,
    unusedVariables,
    home,
    database: {
      ...parsed.database,
      backend,
      sqlite_path: sqlite_path === null ? defaultSqlitePath(home) : absolute(cwd, sqlite_path)
    },
    run_events: {
      ...parsed.run_events,
      backend: located(parsed.run_events.backend ?? (backend === 'memory' ? 'memory' : 'db'), beside)
    },
    agent: {
      ...parsed.agent,
      path: parsed.agent.path && absolute(beside, parsed.agent.path),
      config: parsed.agent.config && absolute(beside, parsed.agent.config)
    },
    skills: { ...parsed.skills, path: parsed.skills.path && absolute(beside, parsed.skills.path) }
  }
}

/** A module with its absolute path: the one in the file is relative to the file. */
function located<Word extends string>(backend: Word | ModuleOption, beside: string): Word | ModuleOption {
  return typeof backend === 'string' ? backend : { ...backend, module: absolute(beside, backend.module) }
}

function badProxies({ server }: Config): string[] {
  return server.trusted_proxies
    .filter((entry) => networkOf(entry) === null)
    .map((entry) => `server.trusted_proxies has ${entry}, which is neither an address nor a range, as 10.0.0.0/8.`)
}

/** As long as the signature: a shorter key would be the weak point. */
const JWT_SECRET_BYTES_MIN = 32

/** Valid options that cannot work, mostly in combination. */
function contradictions(config: Config): string[] {
  const problems: string[] = []
  const { database, agent, streams, server } = config
  if (server.public_url !== null && !isPlace(server.public_url))
    problems.push(
      'server.public_url has a query, a fragment, a name, or a path that begins with /api or has other than letters, digits and ~._-: it is the address of the page, as https://chat.example.com or https://example.com/chat.'
    )
  if (database.backend === 'postgres' && !isPostgresUrl(database.postgres_url))
    problems.push('database.postgres_url is missing or no URL: it must be postgres://user:password@host:port/name.')
  if (agent.runtime === 'langgraph' && agent.url === null)
    problems.push('agent.url is missing: agent.runtime langgraph needs the address of a server.')
  if (agent.runtime === 'module' && agent.path === null)
    problems.push('agent.path is missing: agent.runtime module needs a file.')
  if (agent.runtime === 'graphs' && agent.config === null)
    problems.push('agent.config is missing: agent.runtime graphs needs a langgraph.json.')
  if (streams.event_bytes > 0 && streams.event_bytes < EVENT_BYTES_MIN)
    problems.push(`streams.event_bytes is ${streams.event_bytes}; it must be 0 or at least ${EVENT_BYTES_MIN}.`)
  if (config.skills.path !== null && !existsSync(config.skills.path))
    problems.push(`skills.path is ${config.skills.path}, and there is no such folder.`)
  if (config.memory.storage_path !== '' && !isAbsolute(config.memory.storage_path))
    problems.push('memory.storage_path must be an absolute path, or empty.')
  const key = /^whsec_(.*)$/s.exec(config.webhooks.secret ?? '')?.[1]
  if (key !== undefined && !isBase64(key))
    problems.push(
      'webhooks.secret begins with whsec_, and what follows is no base64. openssl rand -base64 32 makes some.'
    )
  const secret = config.auth.jwt_secret
  if (secret !== null && Buffer.byteLength(secret) < JWT_SECRET_BYTES_MIN)
    problems.push(
      `auth.jwt_secret has fewer than ${JWT_SECRET_BYTES_MIN} bytes: whoever guesses it is everybody. openssl rand -base64 48 makes one.`
    )
  const sealing = config.mcp.secrets_key
  if (sealing !== null && Buffer.byteLength(sealing) < JWT_SECRET_BYTES_MIN)
    problems.push(
      `mcp.secrets_key has fewer than ${JWT_SECRET_BYTES_MIN} bytes: whoever guesses it has every tool server's secrets. openssl rand -base64 48 makes one.`
    )
  return [...problems, ...modelProblems(config), ...providerProblems(config), ...mailProblems(config)]
}

const SENDER = /^([^<>\r\n]*<[^\s<>@]+@[^\s<>@]+>|[^\s<>@]+@[^\s<>@]+)$/

function mailProblems({ mail, server: { host, public_url } }: Config): string[] {
  if (mail.url === null) return []
  const isSender = mail.from === null || SENDER.test(mail.from)
  const isMail = URL.canParse(mail.url) && /^smtps?:\/\/[^/]/i.test(mail.url)
  // What a request says of our address is its sender's choice: a link must not lead there.
  const isKnown = public_url !== null || isLoopbackName(host)
  return [
    ...(isSender ? [] : ['mail.from must be an address, or a name and behind it an address in angle brackets.']),
    ...(isMail ? [] : ['mail.url must be an address as smtp://user:password@mail.example.com:587, or smtps://.']),
    ...(isKnown ? [] : ['mail.url needs server.public_url: links in mails begin with it.'])
  ]
}

function providerProblems({ auth: { local, oidc }, quotas }: Config): string[] {
  const { providers } = oidc
  const ids = providers.map(({ id }) => id)
  const strange = quotas.groups.filter(({ provider }) => provider !== null && !ids.includes(provider))
  const repeated = ids.filter((id, i) => ids.indexOf(id) < i)
  const plain = providers.filter(({ issuer }) => {
    const { protocol, hostname } = new URL(issuer)
    return protocol === 'http:' && !isLoopbackName(hostname)
  })
  return [
    ...repeated.map((id) => `auth.oidc.providers has two with the id ${id}.`),
    ...strange.map(
      ({ name, provider }) =>
        `quotas.groups ${name} has the provider ${provider}, which none of auth.oidc.providers is: nobody would be in it.`
    ),
    ...plain.map(
      ({ id }) => `The issuer of auth.oidc.providers ${id} is http: sign-ins need https beyond this machine.`
    ),
    ...(local || ids.length > 0 ? [] : ['auth.local is false, and auth.oidc.providers is empty: nobody could sign in.'])
  ]
}

function modelProblems(config: Config): string[] {
  const names = config.models.map(({ name }) => name)
  const problems = names.flatMap((name, i) => {
    const first = names.indexOf(name)
    return first < i ? [`models[${i}].name is ${name}, which models[${first}] is called already.`] : []
  })
  // Without models the demo answers, whatever it is called.
  if (names.length === 0) return problems
  const strange = (place: string, name: string) =>
    names.includes(name) ? [] : [`${place} is ${name}, which no model is called: there are ${names.join(', ')}.`]
  const sections: Readonly<Record<string, unknown>> = config
  for (const [section, options] of Object.entries(sections))
    if (isTree(options) && typeof options.model_name === 'string')
      problems.push(...strange(`${section}.model_name`, options.model_name))
  // Misspelt, it would be nobody's, and the one that is meant everybody's.
  for (const { id, groups } of config.auth.oidc.providers)
    for (const group of groups)
      for (const name of group.models)
        problems.push(...strange(`A model of the group ${group.name} in auth.oidc.providers ${id}`, name))
  return problems
}

/** Sentences about options that are set, and of no use with what another one says: a half of a change, most likely. */
export function unusedOptions({ agent, database, files, graphs, home, unusedVariables }: Config): string[] {
  const { sqlite_path, postgres_url } = database
  const backend = typeof database.backend === 'string' ? database.backend : 'a module'
  const needs = [
    ['agent.path', agent.path !== null, 'agent.runtime', agent.runtime, 'module'],
    ['agent.config', agent.config !== null, 'agent.runtime', agent.runtime, 'graphs'],
    ['agent.watch', agent.watch, 'agent.runtime', agent.runtime, 'graphs'],
    ['agent.python', agent.python !== null, 'agent.runtime', agent.runtime, 'graphs'],
    ['graphs.isolation', graphs.isolation !== 'none', 'agent.runtime', agent.runtime, 'graphs'],
    ['agent.url', agent.url !== null, 'agent.runtime', agent.runtime, 'langgraph'],
    ['database.postgres_url', postgres_url !== null, 'database.backend', backend, 'postgres'],
    ['database.sqlite_path', sqlite_path !== defaultSqlitePath(home), 'database.backend', backend, 'sqlite'],
    // A store of your own may be one of several processes too.
    ['files.shared', !files.shared && typeof database.backend === 'string', 'database.backend', backend, 'postgres']
  ] as const
  const unused = needs
    .filter(([, isSet, , is, needed]) => isSet && is !== needed)
    .map(([name, , other, is, needed]) => `${name} is not used: ${other} is ${is}, and not ${needed}`)
  return [...unused, ...unusedVariables]
}

function defaultSqlitePath(home: string): string {
  return resolve(home, 'data', 'colloquy.db')
}

function isPlace(url: string): boolean {
  const { pathname, search, hash, username } = new URL(url)
  return /^(?!\/api(\/|$))(\/[\w.~-]+)*\/?$/.test(pathname) && search === '' && hash === '' && username === ''
}

function isBase64(text: string): boolean {
  return /^[\w+/-]+={0,2}$/.test(text) && Buffer.from(text, 'base64').length > 0
}

function isPostgresUrl(text: string | null): boolean {
  return text !== null && /^postgres(ql)?:\/\//.test(text) && URL.canParse(text)
}

// ----------------------------------------------------------------------------------------------------------- the file

const DEFAULT_FILE = 'colloquy.yaml'

/**
 * @param named the requested file; default: DEFAULT_FILE, if it exists
 * @returns its path and content; a null path and no options when there is no file
 * @throws ConfigError when it cannot be read, or is not YAML
 */
function readFile(named: string | undefined, cwd: string): { file: string | null; tree: unknown } {
  const file = absolute(cwd, named || DEFAULT_FILE)
  const yaml = readText(file, Boolean(named))
  return yaml === null ? { file: null, tree: {} } : { file, tree: parseYaml(yaml, file) }
}

// A file is optional, but one that was named must exist.
function readText(file: string, mustExist: boolean): string | null {
  try {
    const bytes = readFileSync(file)
    if (isUtf8(bytes)) return bytes.toString('utf8')
  } catch (error) {
    const code = codeOf(error) ?? String(error)
    if (code === 'ENOENT' && !mustExist) return null
    throw new ConfigError([`The configuration file ${file} cannot be read (${code}).`])
  }
  // As PowerShell's `>` writes it.
  throw new ConfigError([`${file} is not text in UTF-8.`])
}

function parseYaml(yaml: string, file: string): unknown {
  const lines = new LineCounter()
  // Errors quote no lines: the wrong one may contain a key.
  const document = parseDocument(yaml, { lineCounter: lines, prettyErrors: false })
  refuse(
    document.errors.map((error) => `${file}, line ${lines.linePos(error.pos[0]).line}: ${sentenceCase(error.code)}.`)
  )
  try {
    return valueIn(document) ?? {}
  } catch {
    throw new ConfigError([`${file}: ${BAD_ALIAS}.`])
  }
}

function sentenceCase(code: string): string {
  const words = code.toLowerCase().replaceAll('_', ' ')
  return `this is not valid YAML (${words})`
}

// ------------------------------- as it may be shown: secrets, and headers and addresses that may hold one, are masked

const MASK = '***'
/** Names of options whose value is a secret, and of parameters that may be one. */
const SECRET = /(^|[_-])(key|keys|secret|password|passwd|token|tokens|authorization|cookie|credential|credentials)$/i
/** What is passed on unchanged to models, servers and modules: any text of it may be a secret. */
const PASSED_ON: ReadonlySet<string> = new Set(['request', 'headers', 'options'])

/** Every option as it counts: defaults, file, environment and flags together; of no file, null. */
export interface ShownConfig {
  readonly file: string | null
  readonly options: unknown
  readonly warnings: readonly string[]
}

export function shownConfig(config: Config): ShownConfig {
  const { file, unusedVariables: _, ...options } = config
  return { file, options: masked(options), warnings: unusedOptions(config) }
}

/** The same options; texts that are secrets, or may be, are masked. */
function masked(value: unknown, name = '', isPassedOn = false): unknown {
  if (Array.isArray(value)) return value.map((item) => masked(item, name, isPassedOn))
  if (isTree(value)) {
    const isInside = isPassedOn || PASSED_ON.has(name)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, masked(inner, key, isInside)]))
  }
  if (typeof value !== 'string' || value === '') return value
  if (isPassedOn || SECRET.test(name)) return MASK
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? maskedAddress(value) : value
}

/** An address may have a password, and keys in its query. */
function maskedAddress(text: string): string {
  const url = URL.parse(text)
  if (url === null) return MASK
  if (url.password !== '') url.password = MASK
  // A user without a password may be a token.
  else if (url.username !== '') url.username = MASK
  for (const name of new Set(url.searchParams.keys())) url.searchParams.set(name, MASK)
  return url.search === '' && url.password === '' && url.username === '' ? text : url.href.replaceAll('%2A', '*')
}
