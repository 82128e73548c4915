// The configuration: every option with its default, its unit, and what goes wrong without it. Read once at start; what is
// wrong is refused then, in sentences, and not at the first request that needs it. A limit of 0 is no limit.
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as v from 'valibot'
import { LineCounter, parseDocument } from 'yaml'
import type { JsonObject } from './types.ts'

// ---------------------------------------------------------------------------------------------- options

const DAY_MS = 86_400_000
const MIB = 1024 * 1024
/** Less would not hold the address of what was cut. */
const EVENT_BYTES_MIN = 4096

const server = section({
  // Interface to listen on. 0.0.0.0 opens the gateway to the network: then put TLS in front of it.
  host: text('127.0.0.1'),
  // 0 takes a free one, which the start line tells.
  port: whole(8001, 0, 65_535),
  // Address under which browsers reach us, when proxies rewrite Host: without it their sign-ins look like another site's.
  public_url: url(),
  // Origins of pages on other hosts that may call with the user's cookies. None: such pages cannot read an answer.
  cors_origins: texts(),
  // IPs and CIDR ranges whose X-Real-IP and X-Forwarded-Proto are believed [Auth 9]. Without the proxy in it all users share one
  // lockout, and behind TLS cookies are not Secure and end with the browser.
  trusted_proxies: texts(),
  // Milliseconds that requests and runs have to end on SIGTERM. Too short: answers are cut; too long: the supervisor kills us.
  shutdown_grace_ms: whole(10_000, 0, DAY_MS)
})

const metrics = section({
  // Port on which GET /metrics answers without an account; 0: none, and only administrators can ask. Whoever reaches it can read it.
  port: whole(0, 0, 65_535),
  host: text('127.0.0.1')
})

const database = section({
  // memory keeps nothing over a restart and has no feedback. { module: ./store.js, options: {} } is a store of yours, relative
  // to this file; lib/store/store.ts says what it exports.
  backend: v.nullish(oneOfOrModule(['memory', 'sqlite', 'postgres']), 'sqlite'),
  // null: <home>/data/colloquy.db. Relative to the working directory.
  sqlite_path: nullable(),
  // postgres://user:password@host:port/name; the database is made when it is missing. ?max=20: so many connections, else 10.
  postgres_url: nullable()
})

const run_events = section({
  // null: db, or memory beside a memory database, so that events live as long as everything else. { module: ./events.js } is a
  // place of yours. What another backend wrote before is not moved.
  backend: v.nullish(oneOfOrModule(['memory', 'db', 'jsonl']), null),
  // Bytes of a trace event's content; longer ones are cut and marked. Without it prompts fill the disk at every model call.
  max_trace_content: whole(10_240, 0),
  // Off: token totals of runs stay 0.
  track_token_usage: flag(true)
})

const streams = section({
  // Milliseconds between heartbeats on every open stream. Too long: proxies cut quiet streams, dead ones are found late.
  heartbeat_ms: whole(5_000, 10, DAY_MS),
  // Committed bytes of a run kept in memory for joiners that are a little behind; older frames are read from the store.
  window_bytes: whole(262_144, 0),
  // Bytes of a run that are not stored yet; above it the agent pauses. Without it a stuck disk fills the memory.
  pending_bytes: whole(4_194_304, 0),
  // Bytes of one frame on the wire; a larger one is cut there, says so, and is fetched whole from the address it names. At least
  // 4096. Without it one giant delta or tool result goes to every joiner, and fills the memory of those that read slowly.
  event_bytes: whole(MIB, 0),
  // Milliseconds that frames wait for others before they are stored together. A crash takes back at most this much.
  flush_ms: whole(20, 0, 10_000),
  // Milliseconds for the store to take the end of a run; then joiners are reset and readiness is 503. Without it they hang.
  settle_timeout_ms: whole(30_000, 0, DAY_MS),
  // Milliseconds for which the frames of a busy run are gathered, at least, before they go out together; more under load, up to 50.
  // A run that was quiet for as long is sent at once. Longer: fewer writes, and readers see pieces later.
  gather_ms: whole(10, 0, 50),
  // Milliseconds without any progress on a joiner's full socket before it is reset; it comes back by its position.
  stall_ms: whole(30_000, 0, DAY_MS),
  // Hours after its end that a run can be watched again frame by frame; afterwards its messages and state remain.
  retention_hours: number(24, 0),
  // Open streams of one user, and of all. Without them one client that leaks streams takes every file descriptor.
  per_user: whole(256, 0),
  total: whole(20_000, 0)
})

const runs = section({
  // What becomes of a run whose creating request goes away, where the request does not say.
  on_disconnect: choice(['continue', 'cancel'], 'continue'),
  // Milliseconds that such a request has to come back before `cancel` acts: a blip must not kill its run.
  disconnect_grace_ms: whole(3_000, 0, DAY_MS),
  // Model calls of one run. Without it an agent that goes in circles never ends and is paid for.
  recursion_limit: whole(100, 1, 10_000),
  // Seconds of one run.
  timeout_s: whole(3_600, 0, 2_000_000),
  // Pending and running runs of one user.
  active_per_user: whole(0, 0),
  // Milliseconds after which another process may take over the runs of one that died.
  lease_ms: whole(15_000, 1_000, DAY_MS)
})

const auth = section({
  // Off: accounts are made by initialize alone, register is 403.
  allow_registration: flag(true),
  // Days until a session ends by itself.
  token_expiry_days: whole(7, 1, 30),
  // Key of the session tokens. null: one is made and kept in <home>; several processes behind one address need the same.
  jwt_secret: nullable()
})

const model = v.object(
  {
    // What runs ask for, and /api/models shows. The first model is the default.
    name: filled(),
    // The chat-completions protocol, which nearly every model server speaks.
    provider: choice(['openai'], 'openai'),
    base_url: v.nullish(webAddress(), 'https://api.openai.com/v1'),
    // Never shown, never logged. null: a server that asks for none.
    api_key: nullable(),
    // The name that the model server knows.
    model: filled(),
    display_name: nullable(),
    description: nullable(),
    supports_thinking: flag(false),
    supports_reasoning_effort: flag(false),
    // The tool view_image is offered to it.
    supports_vision: flag(false),
    // Sent along with every request as it is: temperature, max_tokens...
    request: v.nullish(requestOptions(), {}),
    // Milliseconds without a byte from the model. Without it a dead connection holds its run until runs.timeout_s.
    idle_timeout_ms: whole(120_000, 0, DAY_MS),
    // Further tries of a request that failed before its first token.
    max_retries: whole(3, 0, 20)
  },
  'is missing'
)

const Options = v.object({
  // All that we write lies below it. Relative to the working directory.
  home: text('.colloquy'),
  // From which level on lines are logged; debug and trace show contents of conversations.
  log_level: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], 'info'),
  server,
  metrics,
  database,
  run_events,
  streams,
  runs,
  auth,
  // None: the demo model answers.
  models: v.nullish(v.array(model, 'must be a list'), []),
  agent: section({
    // lead is the built-in agent. module: the file `path`, relative to this file, which exports start(input, sink, signal) or a
    // compiled LangGraph.js graph. langgraph: the LangGraph server at `url`.
    runtime: choice(['lead', 'langgraph', 'module'], 'lead'),
    path: nullable(),
    // Up to and without /threads.
    url: url(),
    // For the server's X-Api-Key. Never shown, never logged. null: a server that asks for none.
    api_key: nullable(),
    // Sent with every request to the server.
    headers: v.nullish(v.record(v.string(), filled(), 'must hold headers by name'), {}),
    // The graph or assistant that works on every run. null: the one that the run names, which is the caller's choice.
    assistant_id: nullable(),
    // Milliseconds without a byte of a run's stream until the server is asked whether it is still there. Too long: a server that
    // hangs is noticed late, by runs.timeout_s at the latest.
    idle_timeout_ms: whole(30_000, 0, DAY_MS)
  }),
  // A title for a thread after its first answer. model_name null: the run's own model.
  title: section({
    enabled: flag(true),
    max_words: whole(6, 1, 50),
    max_chars: whole(60, 1, 256),
    model_name: nullable()
  }),
  // Old messages become a summary, the newest `keep_messages` stay. Off: a conversation ends at the model's context window.
  summarization: section({
    enabled: flag(false),
    keep_messages: whole(20, 1, 1_000),
    // It is made above this many messages, or about this many tokens.
    trigger_messages: whole(60, 0, 100_000),
    trigger_tokens: whole(60_000, 0),
    model_name: nullable()
  }),
  // What is remembered of a user over threads.
  memory: section({
    enabled: flag(true),
    // '': one file a user, below <home>. An absolute path is one file for all users.
    storage_path: v.nullish(v.string('must be a text'), ''),
    // Seconds of quiet before a conversation is read for facts.
    debounce_seconds: whole(30, 1, 300),
    model_name: nullable(),
    max_facts: whole(100, 10, 500),
    // Facts that the model is less sure of are dropped; 0 to 1.
    fact_confidence_threshold: number(0.7, 0, 1),
    injection_enabled: flag(true),
    // Tokens of memory in a prompt.
    max_injection_tokens: whole(2_000, 100, 8_000)
  }),
  // Follow-up questions that a page may offer.
  suggestions: section({ enabled: flag(true), max_suggestions: whole(3, 1, 5), model_name: nullable() }),
  uploads: section({
    // A Markdown file beside every uploaded PDF, DOCX, XLSX and PPTX, made before the upload is answered.
    auto_convert_documents: flag(false),
    // Of one request; bytes.
    max_files: whole(10, 0),
    max_file_size: whole(50 * MIB, 0),
    max_total_size: whole(100 * MIB, 0)
  }),
  // Whether pages are told to show token counts.
  token_usage: section({ enabled: flag(true) }),
  // Tool servers that speak MCP; they are set at run time by PUT /api/mcp/config.
  mcp: section({
    // Commands that a stdio server may be started with. Whoever is named here runs as we do.
    stdio_commands: v.nullish(v.array(filled(), 'must be a list'), ['npx', 'uvx']),
    // Private networks that servers may be in; without 127.0.0.0/8 none on this machine. Metadata services stay closed.
    allowed_networks: v.nullish(v.array(filled(), 'must be a list'), ['127.0.0.0/8', '::1/128']),
    // Milliseconds to connect, and for one call.
    connect_timeout_ms: whole(10_000, 100, DAY_MS),
    call_timeout_ms: whole(60_000, 100, DAY_MS)
  }),
  // Folder of skills that come with the installation; null: none.
  skills: section({ enabled: flag(true), path: nullable() })
})

type Parsed = v.InferOutput<typeof Options>

/** The options after defaults, environment and flags, with what follows from them filled in. */
export type Config = Readonly<Omit<Parsed, 'database' | 'run_events'>> & {
  /** The file that was read, or null. */
  readonly file: string | null
  readonly database: Omit<Parsed['database'], 'sqlite_path'> & { readonly sqlite_path: string }
  readonly run_events: Omit<Parsed['run_events'], 'backend'> & {
    readonly backend: NonNullable<Parsed['run_events']['backend']>
  }
}
export type ModelConfig = Config['models'][number]

/** A limit as a number to compare with: 0 in the configuration is no limit. Not for timers: they take no Infinity. */
export function limitOf(option: number): number {
  return option === 0 ? Number.POSITIVE_INFINITY : option
}

// ---------------------------------------------------------------------------------------------- loading

export interface ConfigSource {
  /** --config; must exist when given. */
  readonly file?: string | undefined
  /** --home, --host, --port: beat the environment, which beats the file. */
  readonly home?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | string | undefined
  /** Default process.env. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  /** What relative paths are relative to; default the working directory. */
  readonly cwd?: string | undefined
}

/** The configuration cannot be used; each problem is one sentence for the person who wrote it. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/**
 * Finds, reads and checks the configuration.
 * @throws ConfigError with every problem that could be seen together
 */
export function loadConfig(source: ConfigSource = {}): Config {
  const env = source.env ?? process.env
  const cwd = source.cwd ?? process.cwd()
  const { file, tree } = readTree(source, env, cwd)
  const problems: string[] = []
  const options = withVariables(tree, env, '', problems)
  checkKeys(Options, options, '', problems)
  refuse(problems)
  // It is an object: checkKeys has complained about anything else.
  const names = override(options as Tree, source, env)
  const parsed = v.safeParse(Options, options)
  if (!parsed.success) refuse(parsed.issues.map((issue) => sentence(issue, names)))
  // Not successful was refused one line above; valibot's types do not see it.
  const config = complete(parsed.output as Parsed, file, cwd)
  refuse(contradictions(config))
  return config
}

type Tree = { [name: string]: unknown }
type Env = Readonly<Record<string, string | undefined>>

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigError(problems)
}

const DEFAULT_FILE = 'colloquy.yaml'

function readTree(source: ConfigSource, env: Env, cwd: string): { file: string | null; tree: unknown } {
  const named = source.file || env.COLLOQUY_CONFIG
  const file = resolve(cwd, named || DEFAULT_FILE)
  const yaml = readText(file, Boolean(named))
  return yaml === null ? { file: null, tree: {} } : { file, tree: parseYaml(yaml, file) }
}

// Nobody has to have a file, but one that was named has to be there.
function readText(file: string, mustExist: boolean): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    if (code === 'ENOENT' && !mustExist) return null
    throw new ConfigError([`The configuration file ${file} cannot be read (${code}).`])
  }
}

function parseYaml(yaml: string, file: string): unknown {
  const lines = new LineCounter()
  // Without excerpts in the messages: the line that is wrong may be the one with the key.
  const document = parseDocument(yaml, { lineCounter: lines, prettyErrors: false })
  refuse(
    document.errors.map((error) => `${file}, line ${lines.linePos(error.pos[0]).line}: ${sentenceCase(error.code)}.`)
  )
  try {
    return document.toJS() ?? {}
  } catch {
    throw new ConfigError([`${file}: an alias (*name) has no anchor (&name), or too many.`])
  }
}

function sentenceCase(code: string): string {
  const words = code.toLowerCase().replaceAll('_', ' ')
  return `this is not valid YAML (${words})`
}

/** Replaces every text `$NAME` by that variable, at any depth. */
function withVariables(value: unknown, env: Env, path: string, problems: string[]): unknown {
  if (typeof value === 'string') return variable(value, env, path, problems)
  if (Array.isArray(value)) return value.map((item, i) => withVariables(item, env, `${path}[${i}]`, problems))
  if (!isTree(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, withVariables(inner, env, join(path, name), problems)])
  )
}

function variable(value: string, env: Env, path: string, problems: string[]): string {
  const name = /^\$([A-Za-z_][A-Za-z0-9_]*)$/.exec(value)?.[1]
  if (name === undefined) return value
  const found = env[name]
  if (found === undefined) problems.push(`${path} is ${value}, but the environment variable ${name} is not set.`)
  return found ?? value
}

/**
 * Writes environment and flags over the file's options.
 * @returns by path, the name under which a person knows a value that is not from the file
 */
function override(options: Tree, source: ConfigSource, env: Env): Map<string, string> {
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
  set('home', '--home', source.home)
  set('server.host', '--host', source.host)
  set('server.port', '--port', source.port)
  if (isEmpty(options.models)) set('models', 'OPENAI_API_KEY', modelOfEnvironment(env))
  return names
}

function isEmpty(models: unknown): boolean {
  return models === undefined || models === null || (Array.isArray(models) && models.length === 0)
}

// A key alone is a model: the shortest way from `npm start` to a real answer.
function modelOfEnvironment(env: Env): unknown {
  if (!env.OPENAI_API_KEY) return undefined
  const model = env.OPENAI_MODEL || 'gpt-4o-mini'
  return [
    { name: 'main', provider: 'openai', base_url: env.OPENAI_BASE_URL || null, api_key: env.OPENAI_API_KEY, model }
  ]
}

function put(options: Tree, path: string, value: unknown): void {
  const [name = '', inner] = path.split('.')
  if (inner === undefined) {
    options[name] = value
    return
  }
  const part = options[name]
  options[name] = { ...(isTree(part) ? part : {}), [inner]: value }
}

function complete(parsed: Parsed, file: string | null, cwd: string): Config {
  const home = resolve(cwd, parsed.home)
  const { sqlite_path } = parsed.database
  const beside = file === null ? cwd : dirname(file)
  const backend = located(parsed.database.backend, beside)
  return {
    ...parsed,
    file,
    home,
    database: {
      ...parsed.database,
      backend,
      sqlite_path: sqlite_path === null ? resolve(home, 'data', 'colloquy.db') : resolve(cwd, sqlite_path)
    },
    run_events: {
      ...parsed.run_events,
      backend: located(parsed.run_events.backend ?? (backend === 'memory' ? 'memory' : 'db'), beside)
    },
    agent: { ...parsed.agent, path: parsed.agent.path && resolve(beside, parsed.agent.path) }
  }
}

/** A module with its absolute path: the one in the file is relative to the file. */
function located<Word extends string>(backend: Word | ModuleOption, beside: string): Word | ModuleOption {
  return typeof backend === 'string' ? backend : { ...backend, module: resolve(beside, backend.module) }
}

/** What is well formed and cannot be done: two options against each other, or a part that is not built yet. */
function contradictions(config: Config): string[] {
  const problems: string[] = []
  const { database, run_events: events, agent, streams } = config
  if (database.backend === 'postgres' && !isPostgresUrl(database.postgres_url))
    problems.push('database.postgres_url is missing or no URL: it must be postgres://user:password@host:port/name.')
  if (events.backend === 'jsonl' && database.backend === 'memory')
    problems.push(
      'run_events.backend jsonl needs a database that outlives a restart: with database.backend memory its files would belong to threads that nobody knows any more.'
    )
  if (agent.runtime === 'langgraph' && agent.url === null)
    problems.push('agent.url is missing: agent.runtime langgraph needs the address of a server.')
  if (agent.runtime === 'module' && agent.path === null)
    problems.push('agent.path is missing: agent.runtime module needs a file.')
  if (streams.event_bytes > 0 && streams.event_bytes < EVENT_BYTES_MIN)
    problems.push(`streams.event_bytes is ${streams.event_bytes}; it must be 0 or at least ${EVENT_BYTES_MIN}.`)
  config.models.forEach(({ name }, i) => {
    const first = config.models.findIndex((other) => other.name === name)
    if (first < i) problems.push(`models[${i}].name is ${name}, which models[${first}] is called already.`)
  })
  return problems
}

function isPostgresUrl(text: string | null): boolean {
  return text !== null && /^postgres(ql)?:\/\//.test(text) && URL.canParse(text)
}

// -------------------------------------------------------------------------------------------- sentences

/** Only numbers, switches and choices are repeated: any other text may be a key. */
function sentence(issue: v.BaseIssue<unknown>, names: ReadonlyMap<string, string>): string {
  const path = (issue.path ?? []).reduce(
    (way, item) => (typeof item.key === 'number' ? `${way}[${item.key}]` : join(way, String(item.key))),
    ''
  )
  const isShown = typeof issue.input === 'number' || typeof issue.input === 'boolean' || issue.type === 'picklist'
  return `${names.get(path) ?? path} ${issue.message}${isShown ? ` (it is ${String(issue.input)})` : ''}.`
}

/** The little of a schema that the walk for unknown keys looks at. */
interface Shape {
  readonly type: string
  readonly entries?: Readonly<Record<string, Shape>>
  readonly wrapped?: Shape
  readonly item?: Shape
  /** Of a schema that depends on the value. */
  readonly getter?: (input: unknown) => Shape
}

function checkKeys(schema: Shape, value: unknown, path: string, problems: string[]): void {
  if (value === null || value === undefined) return
  if (schema.wrapped) return checkKeys(schema.wrapped, value, path, problems)
  if (schema.getter) return checkKeys(schema.getter(value), value, path, problems)
  if (schema.item && Array.isArray(value)) {
    for (const [i, item] of value.entries()) checkKeys(schema.item, item, `${path}[${i}]`, problems)
  }
  const { entries } = schema
  if (!entries) return
  if (!isTree(value)) {
    problems.push(`${path || 'The configuration file'} must hold options by name.`)
    return
  }
  for (const [name, inner] of Object.entries(value)) {
    const known = Object.hasOwn(entries, name) ? entries[name] : undefined
    if (known) checkKeys(known, inner, join(path, name), problems)
    else problems.push(`${join(path, name)} is not an option; did you mean ${nearest(name, Object.keys(entries))}?`)
  }
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

function nearest(name: string, known: readonly string[]): string {
  const byDistance = known
    .map((other) => ({ other, steps: distance(name, other) }))
    .sort((one, two) => one.steps - two.steps)
  return byDistance[0]?.other ?? ''
}

/** Letters to add, remove or change to make one name of the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i)
  for (let i = 1; i <= one.length; i++) {
    const above = row
    row = [i]
    for (let j = 1; j <= other.length; j++) {
      const changed = (above[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1)
      row.push(Math.min(changed, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
  }
  return row[other.length] ?? 0
}

// ---------------------------------------------------------------------------------------- kinds of option
// Each message continues the sentence that begins with the option's path. null, as an empty line of YAML is read, is the default.

function section<const Entries extends v.ObjectEntries>(entries: Entries) {
  const inner = v.object(entries)
  // Every entry has a default, so {} is a valid input of every section; the type of a generic one cannot say so.
  return v.nullish(inner, {} as v.InferInput<typeof inner>)
}

/** A whole number. Texts of digits are taken too: they come from the environment. */
function whole(fallback: number, min: number, max = Number.MAX_SAFE_INTEGER) {
  return v.nullish(
    v.pipe(
      v.unknown(),
      v.transform(numberOf),
      v.number('must be a whole number'),
      v.integer('must be a whole number'),
      v.minValue(min, `must be at least ${min}`),
      v.maxValue(max, `must be at most ${max}`)
    ),
    fallback
  )
}

function number(fallback: number, min: number, max = Number.MAX_SAFE_INTEGER) {
  return v.nullish(
    v.pipe(
      v.unknown(),
      v.transform(numberOf),
      v.number('must be a number'),
      v.minValue(min, `must be at least ${min}`),
      v.maxValue(max, `must be at most ${max}`)
    ),
    fallback
  )
}

function numberOf(value: unknown): unknown {
  return typeof value === 'string' && /^-?[0-9]+(\.[0-9]+)?$/.test(value) ? Number(value) : value
}

const YES: readonly unknown[] = ['true', 'yes', 'on', '1', 1]
const NO: readonly unknown[] = ['false', 'no', 'off', '0', 0]

function flag(fallback: boolean) {
  return v.nullish(v.pipe(v.unknown(), v.transform(flagOf), v.boolean('must be true or false')), fallback)
}

function flagOf(value: unknown): unknown {
  const word = typeof value === 'string' ? value.toLowerCase() : value
  if (YES.includes(word)) return true
  return NO.includes(word) ? false : value
}

function text(fallback: string) {
  return v.nullish(filled(), fallback)
}

function filled() {
  return v.pipe(v.string('must be a text'), v.minLength(1, 'must not be empty'))
}

function nullable() {
  return v.nullish(filled(), null)
}

/** A list of texts; one text with commas is one too, as the environment has it. */
function texts() {
  const listed = v.pipe(v.unknown(), v.transform(listOf), v.array(v.string('must be a text'), 'must be a list'))
  return v.nullish(listed, [])
}

function listOf(value: unknown): unknown {
  const items: unknown = typeof value === 'string' ? value.split(',') : value
  if (!Array.isArray(items)) return items
  return items.map((item: unknown) => (typeof item === 'string' ? item.trim() : item)).filter((item) => item !== '')
}

function requestOptions() {
  const named = v.record(v.string(), v.unknown(), 'must hold options by name')
  // YAML of the core schema makes what JSON makes.
  return v.pipe(
    named,
    v.transform((options) => options as JsonObject)
  )
}

function webAddress() {
  return v.pipe(
    v.string('must be a text'),
    v.check(
      (address) => URL.canParse(address) && /^https?:/i.test(address),
      'must be an address that begins with http:// or https://'
    )
  )
}

function url() {
  return v.nullish(webAddress(), null)
}

function oneOf<const Choices extends readonly string[]>(choices: Choices) {
  return v.picklist(choices, `must be one of ${choices.join(', ')}`)
}

/** A file of somebody's that does what the words of an option do. */
interface ModuleOption {
  readonly module: string
  /** Handed to it as they are. */
  readonly options: JsonObject
}

const moduleOption = v.object({ module: filled(), options: v.nullish(requestOptions(), {}) }, 'is missing')

function oneOfOrModule<const Choices extends readonly string[]>(choices: Choices) {
  const words = v.picklist(choices, `must be one of ${choices.join(', ')}, or { module: <file> }`)
  type Value = Choices[number] | ModuleOption
  // One of the two takes every value, each with its own sentence for what is wrong.
  return v.lazy(
    (input): v.GenericSchema<unknown, Value> =>
      (isTree(input) ? moduleOption : words) as v.GenericSchema<unknown, Value>
  )
}

function choice<const Choices extends readonly string[]>(choices: Choices, fallback: Choices[number]) {
  return v.nullish(oneOf(choices), fallback)
}
