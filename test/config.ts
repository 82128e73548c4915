// Configuration: where it is found, what beats what, and that a mistake is refused in a sentence that helps.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ConfigError, type ConfigSource, loadConfig, unusedOptions, shownConfig } from '../lib/config/config.ts'
import { READ, variableOf } from '../lib/config/environment.ts'
import { typesOf } from '../lib/config/keys.ts'
import { Options } from '../lib/config/options.ts'

type Given = Omit<ConfigSource, 'cwd' | 'file'> & { readonly yaml?: string }

function load(t: Test, { yaml, ...source }: Given = {}) {
  const cwd = t.testdir(yaml === undefined ? {} : { 'colloquy.yaml': yaml })
  return loadConfig({ env: {}, ...source, cwd })
}

function problemsOf(t: Test, given: Given): readonly string[] {
  try {
    load(t, given)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  t.fail('the configuration was accepted')
  return []
}

function refused(t: Test, yaml: string, ...expected: string[]): void {
  t.strictSame(problemsOf(t, { yaml }), expected)
}

t.test('without a file the defaults serve', async (t) => {
  const cwd = t.testdir({})
  const config = loadConfig({ env: {}, cwd })
  t.equal(config.file, null)
  t.equal(config.home, join(cwd, '.colloquy'))
  t.match(config.server, {
    host: '127.0.0.1',
    port: 8001,
    public_url: null,
    cors_origins: [],
    shutdown_grace_ms: 10_000
  })
  t.strictSame(config.database, {
    backend: 'sqlite',
    sqlite_path: join(cwd, '.colloquy', 'data', 'colloquy.db'),
    postgres_url: null,
    migration_backup: true
  })
  t.strictSame(config.run_events, { backend: 'db', max_trace_content: 10_240, track_token_usage: true })
  t.match(config.streams, {
    heartbeat_ms: 5_000,
    window_bytes: 262_144,
    pending_bytes: 4_194_304,
    pending_total_bytes: 67_108_864,
    flush_ms: 20,
    unstored_ms: 2_000,
    stall_ms: 30_000
  })
  t.match(config.runs, { on_disconnect: 'continue', recursion_limit: 100, timeout_s: 3_600, active_per_user: 100 })
  t.strictSame(config.auth, {
    registration: 'open',
    setup_link: 'auto',
    allow_registration: true,
    local: true,
    oidc: { recheck_s: 300, providers: [] },
    token_expiry_days: 7,
    jwt_secret: null
  })
  t.strictSame(config.models, [])
  t.strictSame(config.title, { enabled: true, max_words: 6, max_chars: 60, model_name: null })
  t.match(config.memory, { enabled: true, debounce_seconds: 30, max_facts: 100, fact_confidence_threshold: 0.7 })
  t.match(config.uploads, { max_files: 10, max_file_size: 52_428_800, max_total_size: 104_857_600 })
  t.equal(config.log_level, 'info')
})

t.test('the file is the given one, else COLLOQUY_CONFIG, else ./colloquy.yaml', async (t) => {
  const cwd = t.testdir({
    'colloquy.yaml': 'server: { port: 1 }',
    'env.yaml': 'server: { port: 2 }',
    'given.yaml': 'server: { port: 3 }'
  })
  t.equal(loadConfig({ env: {}, cwd }).server.port, 1)
  t.equal(loadConfig({ env: { COLLOQUY_CONFIG: 'env.yaml' }, cwd }).server.port, 2)
  const config = loadConfig({ env: { COLLOQUY_CONFIG: 'env.yaml' }, file: 'given.yaml', cwd })
  t.equal(config.server.port, 3)
  t.equal(config.file, join(cwd, 'given.yaml'))
})

t.test('a file that was named and is not there is refused', async (t) => {
  t.throws(() => loadConfig({ env: {}, file: 'none.yaml', cwd: t.testdir({}) }), /none\.yaml cannot be read \(ENOENT\)/)
  const cwd = t.testdir({})
  mkdirSync(join(cwd, 'folder.yaml'))
  t.throws(() => loadConfig({ env: { COLLOQUY_CONFIG: 'folder.yaml' }, cwd }), ConfigError)
})

t.test('empty sections, an empty file and null values are the defaults', async (t) => {
  for (const yaml of ['', '# nothing', 'title:\nmodels:\nserver: {}\n', 'server: { port: null }']) {
    t.equal(load(t, { yaml }).server.port, 8001)
  }
})

t.test('broken YAML is refused with its line and without its text', async (t) => {
  const [problem = ''] = problemsOf(t, { yaml: 'server:\n  host: "secret-text\nport: [' })
  t.match(problem, /colloquy\.yaml, line \d+: this is not valid YAML/)
  t.notMatch(problem, /secret-text/)
  t.match(problemsOf(t, { yaml: 'server: *nowhere' }), [/colloquy\.yaml: an alias/])
  t.match(problemsOf(t, { yaml: '- a\n- b' }), [/colloquy\.yaml must hold options by name\.$/])
  const cwd = t.testdir({ 'colloquy.yaml': Buffer.from('\ufeffserver: {}\n', 'utf16le') })
  t.throws(() => loadConfig({ cwd, env: {} }), { message: /colloquy\.yaml is not text in UTF-8\.$/ })
})

t.test('an unknown key is refused with its path and the nearest valid key', async (t) => {
  refused(t, 'streams: { hartbeat_ms: 1 }', 'streams.hartbeat_ms is not an option; did you mean heartbeat_ms?')
  refused(
    t,
    'databse: {}\nmodels: [{ name: a, modle: b }]',
    'databse is not an option; did you mean database?',
    'models[0].modle is not an option; did you mean model?'
  )
  const problems = problemsOf(t, { yaml: '__proto__: { a: 1 }\nserver: { constructor: 1 }' })
  t.match(problems, [
    /^__proto__ is not an option; there are /,
    /^server.constructor is not an option; there are host, /
  ])
  t.equal(problems.length, 2)
})

t.test('a value out of its range is refused with its path, the bound and the value', async (t) => {
  refused(t, 'auth: { token_expiry_days: 0 }', 'auth.token_expiry_days must be at least 1 (it is 0).')
  refused(t, 'auth: { token_expiry_days: 31 }', 'auth.token_expiry_days must be at most 30 (it is 31).')
  refused(t, 'server: { port: 1.5 }', 'server.port must be a whole number (it is 1.5).')
  refused(
    t,
    'server: { port: 70000, host: "" }',
    'server.host must not be empty.',
    'server.port must be at most 65535 (it is 70000).'
  )
  refused(
    t,
    'database: { backend: oracle }',
    'database.backend must be one of memory, sqlite, postgres, or { module: <file> } (it is oracle).'
  )
  refused(
    t,
    'run_events: { backend: xml }',
    'run_events.backend must be one of memory, db, jsonl, or { module: <file> } (it is xml).'
  )
  refused(t, 'title: { enabled: maybe }', 'title.enabled must be true or false.')
  refused(t, 'server: 5', 'server must hold options by name.')
  refused(t, 'server: [1]', 'server must hold options by name.')
  refused(t, 'models: x', 'models must be a list.')
  refused(t, 'models: [{ name: a }]', 'models[0].model is missing.')
  refused(
    t,
    'server: { public_url: chat.example }',
    'server.public_url must be an address that begins with http:// or https://.'
  )
})

t.test('both ends of a range are accepted', async (t) => {
  for (const days of [1, 30])
    t.equal(load(t, { yaml: `auth: { token_expiry_days: ${days} }` }).auth.token_expiry_days, days)
})

t.test('a text $NAME is that environment variable, at any depth', async (t) => {
  const yaml =
    'server: { port: $PORT }\nmodels: [{ name: a, model: m, api_key: $KEY, request: { user: $KEY, cost: $5 } }]'
  const config = load(t, { yaml, env: { PORT: '99', KEY: 'k-1' } })
  t.equal(config.server.port, 99)
  t.match(config.models[0], { api_key: 'k-1', request: { user: 'k-1', cost: '$5' } })
})

t.test('a name in braces is that variable anywhere in a text; a dollar alone is a dollar', async (t) => {
  const braced = (name: string) => `$\{${name}}`
  const yaml =
    `database: { backend: postgres, postgres_url: "postgres://u:${braced('PW')}@db:5432/chat" }\n` +
    `models: [{ name: a, model: m, api_key: "${braced('KEY')}", request: { user: "a$KEY", more: "$KEY-${braced('KEY')}" } }]`
  const config = load(t, { yaml, env: { PW: 'p$w', KEY: 'k-1' } })
  t.equal(config.database.postgres_url, 'postgres://u:p$w@db:5432/chat')
  t.match(config.models[0], { api_key: 'k-1', request: { user: 'a$KEY', more: '$KEY-k-1' } })
  refused(
    t,
    `models: [{ name: a, model: m, api_key: "Bearer ${braced('NO_SUCH_KEY')}" }]`,
    `models[0].api_key is ${braced('NO_SUCH_KEY')}, but the environment variable NO_SUCH_KEY is not set.`
  )
})

t.test("~ is the operator's own folder, in the file and behind a flag's =, where no shell says so", async (t) => {
  const yaml = 'database: { sqlite_path: ~/chat.db }\nagent: { runtime: module, path: ~/agent.mjs }'
  const config = load(t, { yaml, home: '~/colloquy' })
  t.equal(config.home, join(homedir(), 'colloquy'))
  t.equal(config.database.sqlite_path, join(homedir(), 'chat.db'))
  t.equal(config.agent.path, join(homedir(), 'agent.mjs'))
  t.equal(load(t, { langgraph: '~' }).agent.config, homedir())
  t.match(load(t, { yaml: 'home: ~other' }).home, /\/~other$/)
})

t.test('a model that a section names and nobody has configured is refused', async (t) => {
  const models = 'models: [{ name: main, model: m }, { name: small, model: s }]'
  for (const section of ['title', 'summarization', 'memory', 'suggestions', 'input_polish']) {
    t.equal(load(t, { yaml: `${models}\n${section}: { model_name: small }` }).models.length, 2)
    const sentence = `${section}.model_name is smal, which no model is called: there are main, small.`
    refused(t, `${models}\n${section}: { model_name: smal }`, sentence)
  }
  t.equal(load(t, { yaml: 'title: { model_name: later }' }).models.length, 0, 'the demo model has no names')
})

t.test(
  'what a group names and nobody has configured is refused: it would be open to all, or nobody in it',
  async (t) => {
    const models = 'models: [{ name: main, model: m }]'
    const provider = (group: string) =>
      `auth: { oidc: { providers: [{ id: corp, issuer: "https://id.example", client_id: c, groups: [${group}] }] } }`
    t.equal(load(t, { yaml: `${models}\n${provider('{ name: vip, models: [main] }')}` }).models.length, 1)
    refused(
      t,
      `${models}\n${provider('{ name: vip, models: [mian] }')}`,
      'A model of the group vip in auth.oidc.providers corp is mian, which no model is called: there are main.'
    )
    const quota = (id: string) =>
      `${provider('')}\nquotas: { groups: [{ name: vip, provider: ${id}, runs_per_day: 1 }] }`
    t.equal(load(t, { yaml: quota('corp') }).quotas.groups.length, 1)
    refused(
      t,
      quota('crop'),
      'quotas.groups vip has the provider crop, which none of auth.oidc.providers is: nobody would be in it.'
    )
  }
)

t.test('a list is no object, a header can be sent, and a sender has an address', async (t) => {
  refused(t, 'models: [{ name: a, model: m, request: [1] }]', 'models[0].request must hold options by name.')
  refused(t, 'agent: { headers: [a] }', 'agent.headers must hold headers by name.')
  for (const header of ['a b: x', 'x-a: "one\\ntwo"'])
    refused(t, `agent: { headers: { ${header} } }`, 'agent.headers has a name or a value that no header can have.')
  const mail = (from: string) => `mail: { url: "smtp://m.example", from: "${from}" }`
  for (const from of ['a@b.example', 'Colloquy of B <a@b.example>'])
    t.equal(load(t, { yaml: mail(from) }).mail.from, from)
  for (const from of ['Colloquy', 'a@b.example c', 'A <b>'])
    refused(t, mail(from), 'mail.from must be an address, or a name and behind it an address in angle brackets.')
})

t.test('an alias that leads nowhere or to itself is a sentence, in the file and in a variable', async (t) => {
  const what = 'an alias (*name) has no anchor (&name), too many, or stands within it.'
  for (const starters of ['[*x]', '&x [a, *x]']) {
    const [inFile = '', ...others] = problemsOf(t, { yaml: `console: { starters: ${starters} }` })
    t.ok(inFile.endsWith(`colloquy.yaml: ${what}`), inFile)
    t.strictSame(others, [])
  }
  for (const starters of ['[*x]', '[&x [a, *x]]'])
    t.strictSame(problemsOf(t, { env: { COLLOQUY_CONSOLE__STARTERS: starters } }), [
      `COLLOQUY_CONSOLE__STARTERS (console.starters): ${what}`
    ])
})

t.test('a secret of webhooks that begins as base64 and is none is refused', async (t) => {
  t.ok(load(t, { yaml: 'webhooks: { secret: whsec_c2VjcmV0 }' }).webhooks.secret)
  t.ok(load(t, { yaml: 'webhooks: { secret: any other text }' }).webhooks.secret)
  for (const secret of ['whsec_', 'whsec_###', 'whsec_not base64', 'whsec_a'])
    refused(
      t,
      `webhooks: { secret: "${secret}" }`,
      'webhooks.secret begins with whsec_, and what follows is no base64. openssl rand -base64 32 makes some.'
    )
})

t.test('a folder of skills that is not there, and a file of memories that is nowhere, are refused', async (t) => {
  const [none] = problemsOf(t, { yaml: 'skills: { path: ./none }' })
  t.match(none, /^skills\.path is \/.*\/none, and there is no such folder\.$/)
  t.match(load(t, { yaml: 'skills: { path: . }' }).skills.path, /^\//)
  refused(t, 'memory: { storage_path: all.json }', 'memory.storage_path must be an absolute path, or empty.')
})

t.test('what is set and is of no use as things stand is told', async (t) => {
  const cases = {
    'agent: { path: ./a.mjs }': 'agent.path is not used: agent.runtime is lead, and not module',
    'agent: { config: . }': 'agent.config is not used: agent.runtime is lead, and not graphs',
    'agent: { watch: true }': 'agent.watch is not used: agent.runtime is lead, and not graphs',
    'graphs: { isolation: worker }': 'graphs.isolation is not used: agent.runtime is lead, and not graphs',
    'agent: { url: "http://a.example" }': 'agent.url is not used: agent.runtime is lead, and not langgraph',
    'database: { postgres_url: "postgres://db/chat" }':
      'database.postgres_url is not used: database.backend is sqlite, and not postgres',
    'database: { backend: memory, sqlite_path: a.db }':
      'database.sqlite_path is not used: database.backend is memory, and not sqlite',
    'files: { shared: false }': 'files.shared is not used: database.backend is sqlite, and not postgres'
  }
  for (const [yaml, sentence] of Object.entries(cases)) t.strictSame(unusedOptions(load(t, { yaml })), [sentence], yaml)
  for (const yaml of ['', 'agent: { runtime: module, path: a.mjs }', 'database: { sqlite_path: a.db }'])
    t.strictSame(unusedOptions(load(t, { yaml })), [], yaml)
})

t.test('a variable that is not set is refused by its name', async (t) => {
  refused(
    t,
    'models: [{ name: a, model: m, api_key: $NO_SUCH_KEY }]',
    'models[0].api_key is $NO_SUCH_KEY, but the environment variable NO_SUCH_KEY is not set.'
  )
})

t.test('flags beat the environment, which beats the file', async (t) => {
  const yaml = 'home: from-file\nserver: { host: 1.1.1.1, port: 1, cors_origins: [https://file.example] }'
  const env = {
    COLLOQUY_HOME: '/env',
    GATEWAY_HOST: '2.2.2.2',
    GATEWAY_PORT: '2',
    GATEWAY_CORS_ORIGINS: 'https://a.example, https://b.example,'
  }
  t.match(load(t, { yaml }).server, { host: '1.1.1.1', port: 1 })
  const fromEnv = load(t, { yaml, env })
  t.equal(fromEnv.home, '/env')
  t.match(fromEnv.server, { host: '2.2.2.2', port: 2 })
  t.strictSame(fromEnv.server.cors_origins, ['https://a.example', 'https://b.example'])
  const fromFlags = load(t, { yaml, env, home: '/flag', host: '3.3.3.3', port: 0 })
  t.equal(fromFlags.home, '/flag')
  t.match(fromFlags.server, { host: '3.3.3.3', port: 0 })
})

t.test('a text of the environment is taken as it is, also in brackets', async (t) => {
  for (const [path, type] of typesOf(Options)) {
    if (type !== 'string') continue
    // One mistake that is none of the text.
    const problems = problemsOf(t, { env: { [variableOf(path)]: '[a]' }, port: 'x' })
    t.strictSame(
      problems.filter((problem) => problem.includes('must be a text')),
      [],
      path
    )
  }
})

t.test('an address of version 6 is listened on with its brackets or without', async (t) => {
  const [yaml, env] = ["server: { host: '[::1]' }\nmetrics: { host: '[::]' }", { GATEWAY_HOST: '[::1]' }]
  t.match(load(t, { yaml }), { server: { host: '::1' }, metrics: { host: '::' } })
  t.match(
    [load(t, { env }), load(t, { host: '[::1]' }), load(t, { host: '::1' })].map(({ server }) => server.host),
    ['::1', '::1', '::1']
  )
})

t.test('a bad value from outside the file is refused under the name it has there', async (t) => {
  t.strictSame(problemsOf(t, { env: { GATEWAY_PORT: 'http' } }), ['GATEWAY_PORT (server.port) must be a whole number.'])
  t.strictSame(problemsOf(t, { port: '99999' }), ['--port (server.port) must be at most 65535 (it is 99999).'])
})

t.test('AUTH_TRUSTED_PROXIES and AUTH_JWT_SECRET are read; an empty variable is none', async (t) => {
  const config = load(t, {
    env: {
      AUTH_TRUSTED_PROXIES: '10.0.0.0/8, nonsense',
      AUTH_JWT_SECRET: 's'.repeat(32),
      GATEWAY_PORT: '',
      COLLOQUY_HOME: ''
    }
  })
  t.strictSame(config.server.trusted_proxies, ['10.0.0.0/8', 'nonsense'])
  t.equal(config.auth.jwt_secret, 's'.repeat(32))
  t.equal(config.server.port, 8001)
})

t.test('networks that are none are refused at start where the file names them', async (t) => {
  refused(
    t,
    'server: { trusted_proxies: [127.0.0.1, 10.0.0.0/99, foo] }',
    'server.trusted_proxies has 10.0.0.0/99, which is neither an address nor a range, as 10.0.0.0/8.',
    'server.trusted_proxies has foo, which is neither an address nor a range, as 10.0.0.0/8.'
  )
  for (const path of ['mcp', 'webhooks'])
    refused(
      t,
      `${path}: { allowed_networks: [10.0.0.0/99] }`,
      `${path}.allowed_networks[0] must be an address or a range, as 10.0.0.0/8 or fd00::/8.`
    )
  t.equal(load(t).server.trusted_hops, 0)
  t.equal(load(t, { yaml: 'server: { trusted_hops: 2 }' }).server.trusted_hops, 2)
})

t.test('OPENAI_API_KEY alone makes a model, when none is configured', async (t) => {
  const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', OPENAI_MODEL: 'm' }
  t.match(load(t, { env }).models, [
    { name: 'main', provider: 'openai', api_key: 'k', base_url: 'http://127.0.0.1:9/v1', model: 'm' }
  ])
  t.match(load(t, { env: { OPENAI_API_KEY: 'k' } }).models, [
    { base_url: 'https://api.openai.com/v1', max_retries: 3, idle_timeout_ms: 120_000 }
  ])
  t.strictSame(load(t, { env: { OPENAI_MODEL: 'm' } }).models, [])
  const configured = load(t, { env, yaml: 'models: [{ name: mine, model: x }]' }).models
  t.strictSame(
    configured.map((model) => model.name),
    ['mine']
  )
})

t.test('two models of one name are refused', async (t) => {
  refused(
    t,
    'models: [{ name: a, model: x }, { name: a, model: y }]',
    'models[1].name is a, which models[0] is called already.'
  )
})

t.test('no problem repeats a text that may be a key', async (t) => {
  const yaml =
    'models: [{ name: a, model: m, api_key: [sk-secret], base_url: sk-secret }]\nauth: { jwt_secret: { a: sk-secret } }'
  for (const problem of problemsOf(t, { yaml })) t.notMatch(problem, /sk-secret/)
})

t.test('a database that cannot be found is refused at start', async (t) => {
  const url = 'database.postgres_url is missing or no URL: it must be postgres://user:password@host:port/name.'
  refused(t, 'database: { backend: postgres }', url)
  refused(t, 'database: { backend: postgres, postgres_url: "localhost:5432/chat" }', url)
})

t.test('a runtime without what it needs is refused; a server takes headers and a key', async (t) => {
  const missing = 'agent.url is missing: agent.runtime langgraph needs the address of a server.'
  refused(t, 'agent: { runtime: langgraph }', missing)
  refused(t, 'agent: { runtime: module }', 'agent.path is missing: agent.runtime module needs a file.')
  const yaml = 'agent: { runtime: langgraph, url: http://h:1, api_key: $KEY, headers: { x-a: b } }'
  t.match(load(t, { yaml, env: { KEY: 'k' } }).agent, { api_key: 'k', headers: { 'x-a': 'b' }, assistant_id: null })
})

t.test('events go where the rest goes, unless said otherwise', async (t) => {
  t.equal(load(t, { yaml: 'database: { backend: memory }' }).run_events.backend, 'memory')
  t.equal(load(t, { yaml: 'database: { backend: sqlite }\nrun_events: { backend: db }' }).run_events.backend, 'db')
})

t.test(
  'a store of somebody else is a file beside the configuration, with options that are handed to it as they are',
  async (t) => {
    const cwd = t.testdir({
      conf: {
        'c.yaml':
          'run_events: { backend: { module: ./e.js, options: { url: u, n: 1 } } }\ndatabase: { backend: { module: d.js } }'
      }
    })
    const { database, run_events } = loadConfig({ home: 'home', env: {}, cwd, file: 'conf/c.yaml' })
    t.strictSame(run_events.backend, { module: join(cwd, 'conf', 'e.js'), options: { url: 'u', n: 1 } })
    t.strictSame(database.backend, { module: join(cwd, 'conf', 'd.js'), options: {} })
    t.strictSame(load(t, { yaml: 'database: { backend: { module: d.js } }' }).run_events.backend, 'db')
    refused(
      t,
      'run_events: { backend: { modul: a } }',
      'run_events.backend.modul is not an option; did you mean module?'
    )
    refused(t, 'run_events: { backend: { module: 5 } }', 'run_events.backend.module must be a text (it is 5).')
    refused(t, 'database: { backend: {} }', 'database.backend.module is missing.')
  }
)

t.test('paths are absolute: home and database below the working directory', async (t) => {
  const cwd = t.testdir({ 'colloquy.yaml': 'home: h\ndatabase: { sqlite_path: x/y.db }' })
  const config = loadConfig({ env: {}, cwd })
  t.equal(config.home, join(cwd, 'h'))
  t.equal(config.database.sqlite_path, join(cwd, 'x', 'y.db'))
})

t.test('switches are taken in the spellings that YAML and shells have', async (t) => {
  for (const word of ['true', 'yes', 'on', '1', '"True"'])
    t.equal(load(t, { yaml: `summarization: { enabled: ${word} }` }).summarization.enabled, true)
  for (const word of ['false', 'no', 'off', '0', '"OFF"'])
    t.equal(load(t, { yaml: `title: { enabled: ${word} }` }).title.enabled, false)
})

t.test('a limit of 0 is no limit', async (t) => {
  t.equal(load(t, { yaml: 'streams: { per_user: 0 }' }).streams.per_user, 0)
})

t.test('JSON is a configuration file too', async (t) => {
  const cwd = t.testdir({})
  writeFileSync(
    join(cwd, 'c.json'),
    JSON.stringify({ database: { backend: 'sqlite' }, models: [{ name: 'main', model: 'fake' }] }, null, 2)
  )
  t.equal(loadConfig({ env: {}, file: 'c.json', cwd }).models[0]?.model, 'fake')
})

t.test('[18.B.8] a key of the session tokens that is shorter than its signature is refused', async (t) => {
  const problems = (secret: string) => problemsOf(t, { env: { AUTH_JWT_SECRET: secret } })
  t.match(problems('s'.repeat(31)), [/^auth\.jwt_secret has fewer than 32 bytes/])
  t.notMatch(problems('hunter2').join(), /hunter2/)
  t.equal(load(t, { env: { AUTH_JWT_SECRET: 'é'.repeat(16) } }).auth.jwt_secret, 'é'.repeat(16))
})

t.test('allow_registration: false is the older word for registration: closed', async (t) => {
  const registration = (auth: object) => load(t, { yaml: JSON.stringify({ auth }) }).auth.registration
  t.strictSame(
    [
      registration({}),
      registration({ registration: 'invite' }),
      registration({ registration: 'invite', allow_registration: false })
    ],
    ['open', 'invite', 'closed']
  )
})

t.test('a name that is near none is answered with those that there are', async (t) => {
  const [problem = ''] = problemsOf(t, { yaml: 'server: { tls: true }' })
  t.match(problem, /^server.tls is not an option; there are host, port, public_url, /)
})

t.test('a public URL is an origin and perhaps a path, and nothing that no page is at', async (t) => {
  for (const rest of ['/?a=1', '/#x', '/chat/?a=1', '/a//b', '/a%20b', '/a"b'])
    t.match(
      problemsOf(t, { yaml: `server: { public_url: 'https://example.com${rest}' }` }),
      [/^server.public_url/],
      rest
    )
  t.match(problemsOf(t, { yaml: `server: { public_url: 'https://me@example.com' }` }), [/^server.public_url has/])
  for (const url of ['https://example.com', 'https://example.com:8443/', 'https://a.b/chat', 'https://a.b/a/b-1/'])
    t.equal(load(t, { yaml: `server: { public_url: '${url}' }` }).server.public_url, url)
})

t.test('a variable that seems to be meant for us and that nothing reads is a warning', async (t) => {
  const unusedIn = (env: Record<string, string>, yaml = '') => unusedOptions(load(t, { env, yaml }))
  for (const name of ['COLLOQUY_PORT', 'COLLOQUY_ANYTHING', 'GATEWAY_PROT', 'POSTGRES_URL', 'PORT', 'LOG_LEVEL'])
    t.match(unusedIn({ [name]: 'abc' }), [new RegExp(`^the environment variable ${name} is not used`)], name)
  t.strictSame(
    unusedIn({ DATABASE_URL: 'postgres://a@b/c' }, 'database: { backend: postgres, postgres_url: $DATABASE_URL }'),
    []
  )
  t.strictSame(unusedIn({ COLLOQUY_TOKEN: 'abc', PATH: '/bin', COLLOQUY_HOME: '/tmp/x' }), [])
})

t.test('every option is a variable, a list or a section as JSON; flags beat it, and it beats the file', async (t) => {
  const env = {
    COLLOQUY_SERVER__PORT: '7',
    COLLOQUY_AUTH__OIDC__RECHECK_S: '60',
    COLLOQUY_TITLE__ENABLED: 'off',
    COLLOQUY_LOG__FORMAT: 'text',
    COLLOQUY_SERVER__CORS_ORIGINS: 'https://a.example, https://b.example',
    COLLOQUY_MODELS: '[{ "name": "main", "model": "m", "api_key": "$KEY" }]',
    KEY: 'k-1'
  }
  const config = load(t, { yaml: 'server: { port: 1 }\nlog_level: warn', env })
  t.match(config, {
    title: { enabled: false },
    auth: { oidc: { recheck_s: 60 } },
    log: { format: 'text', level: 'warn' }
  })
  t.match(config.server, { port: 7, cors_origins: ['https://a.example', 'https://b.example'] })
  t.match(config.models, [{ name: 'main', api_key: 'k-1' }])
  t.strictSame(unusedOptions(config), [])
  t.equal(load(t, { env, port: 8 }).server.port, 8)
  t.strictSame(problemsOf(t, { env: { COLLOQUY_SERVER__PORT: 'http' } }), [
    'COLLOQUY_SERVER__PORT (server.port) must be a whole number.'
  ])
})

t.test('a secret may lie in a file that NAME_FILE names', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-secrets-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const secrets = { secret: 's'.repeat(40), key: 'k-1', url: 'postgres://a:pw@db/chat', base: 'http://m:1/v1' }
  for (const [name, text] of Object.entries(secrets)) writeFileSync(join(folder, name), `${text}\n`)
  const env = {
    AUTH_JWT_SECRET_FILE: join(folder, 'secret'),
    COLLOQUY_WEBHOOKS__SECRET_FILE: join(folder, 'key'),
    MODEL_KEY_FILE: join(folder, 'key'),
    DATABASE_URL_FILE: join(folder, 'url')
  }
  const config = load(t, { yaml: 'models: [{ name: a, model: m, api_key: $MODEL_KEY }]', env })
  t.equal(config.auth.jwt_secret, 's'.repeat(40))
  t.match(config, { webhooks: { secret: 'k-1' }, models: [{ api_key: 'k-1' }] })
  t.match(config.database, { backend: 'postgres', postgres_url: 'postgres://a:pw@db/chat' })
  t.strictSame(unusedOptions(config), [])
  const model = { OPENAI_API_KEY_FILE: 'key', OPENAI_MODEL_FILE: 'key', OPENAI_BASE_URL_FILE: 'base' }
  const files = Object.fromEntries(Object.entries(model).map(([name, file]) => [name, join(folder, file)]))
  t.match(load(t, { env: files }).models, [{ api_key: 'k-1', model: 'k-1', base_url: 'http://m:1/v1' }])
  const [problem] = problemsOf(t, { env: { AUTH_JWT_SECRET_FILE: '/no/such/file' } })
  t.equal(problem, 'AUTH_JWT_SECRET_FILE names /no/such/file, which cannot be read (ENOENT).')
})

t.test('DATABASE_URL is the database, unless another one was chosen', async (t) => {
  const env = { DATABASE_URL: 'postgres://a:pw@db/chat' }
  t.match(load(t, { env }).database, { backend: 'postgres', postgres_url: env.DATABASE_URL })
  const chosen = load(t, { env, yaml: 'database: { backend: sqlite }' })
  t.match(chosen.database, { backend: 'sqlite', postgres_url: null })
  t.equal(load(t, { env: { DATABASE_URL: 'mysql://a@b/c' } }).database.backend, 'sqlite')
})

t.test('wrong keys and wrong values are told in one round, each once', async (t) => {
  refused(
    t,
    'server: { prot: 1, host: "" }\ntitle: 5\nmodels: [{ name: a, modle: b, max_retries: 99 }]',
    'server.prot is not an option; did you mean port?',
    'title must hold options by name.',
    'models[0].modle is not an option; did you mean model?',
    'server.host must not be empty.',
    'models[0].max_retries must be at most 20 (it is 99).'
  )
})

t.test('what only the whole shows is told in the same round, and no wrong value twice', async (t) => {
  const yaml = `
server: { portt: 1, port: 99999, trusted_proxies: [10.0.0.0/99, foo], public_url: "https://a.example/?b" }
auth: { jwt_secret: short }
database: { backend: mongo }
sharing: { mode: users }
agent: { runtime: module, pth: ./agent.mjs }`
  const told = [
    'server.portt is not an option; did you mean port?',
    'agent.pth is not an option; did you mean path?',
    'server.port must be at most 65535 (it is 99999).',
    'database.backend must be one of memory, sqlite, postgres, or { module: <file> } (it is mongo).',
    'sharing must be one of off, users, public.',
    'server.public_url has a query',
    'auth.jwt_secret has fewer than 32 bytes',
    'server.trusted_proxies has 10.0.0.0/99, which is neither an address nor a range',
    'server.trusted_proxies has foo, which is neither an address nor a range'
  ]
  t.match(problemsOf(t, { yaml }), told)
  t.equal(problemsOf(t, { yaml }).length, told.length)
  t.equal(problemsOf(t, { yaml: 'database: { backend: postgres, postgres_url: $NOT_SET_AT_ALL }' }).length, 1)
})

t.test('a configuration is shown without its secrets', async (t) => {
  const yaml = `
database: { backend: postgres, postgres_url: "postgres://u:SENTINEL@db/chat?sslpassword=SENTINEL" }
auth:
  jwt_secret: SENTINEL-SENTINEL-SENTINEL-SENTINEL
  oidc: { providers: [{ id: a, issuer: "https://a.example", client_id: c, client_secret: SENTINEL }] }
models: [{ name: a, model: m, api_key: SENTINEL, base_url: "https://SENTINEL@m.example/v1?key=SENTINEL", request: { extra_headers: { a: SENTINEL } } }]
agent: { runtime: langgraph, url: "http://h:1", api_key: SENTINEL, headers: { x-a: SENTINEL } }
webhooks: { secret: SENTINEL }
run_events: { backend: { module: ./e.js, options: { dsn: SENTINEL } } }`
  const shown = JSON.stringify(shownConfig(load(t, { yaml })))
  t.notMatch(shown, /SENTINEL/i)
  t.match(shown, /postgres:\/\/u:\*\*\*@db\/chat/)
  t.match(shown, /a\.example/)
})

t.test('every variable that is read stands in the operator’s document', async (t) => {
  const text = readFileSync(new URL('../../bin/README.md', import.meta.url), 'utf8')
  for (const name of READ) t.ok(text.includes(`\`${name}\``), name)
})
