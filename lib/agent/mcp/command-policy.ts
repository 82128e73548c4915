// Restricts how tool servers are started. Their commands run with our rights, so anything that could make a launcher run
// something other than a named package is refused [needs N20].

// --------------------------------- The configuration of a tool server, as in the API and the file [contract 6.5]

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

/** Harmless flags that may precede the package. */
const LAUNCHER_FLAGS: Readonly<Record<string, ReadonlySet<string>>> = {
  npx: new Set(['-y', '--yes', '-q', '--quiet']),
  uvx: new Set(['-q', '--quiet'])
}

/** A package name in a registry: not a URL, path, file or repository. */
const PACKAGE = /^(@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*(@[a-z0-9][a-z0-9._+-]*|==[a-z0-9][a-z0-9._+-]*)?$/i

/** Flags that carry or load code, in the dialects of node, npm, python, uv, ruby, perl and shells. */
const CODE_FLAGS =
  /^(-[cepr]|--(call|eval|print|require|import|loader|experimental-loader|node-options|script-shell|shell|inspect(-brk)?|env-file|command))(=|$)/i

/** Last words of variable names that only carry data: accounts, keys, addresses, switches. */
const PASSING_WORDS = new Set(
  `key token secret password passphrase credentials user username login email id account tenant org organization team owner
  workspace project repo repository database db schema table namespace bucket collection model url uri dsn host hostname
  port endpoint domain region zone site space channel version timeout limit size level mode name title lang language locale
  timezone currency enabled disabled debug verbose readonly dryrun`.split(/\s+/)
)
/** Complete names that are harmless too. */
const PASSING = new Set(['TZ', 'LANG', 'LC_ALL', 'NO_COLOR', 'FORCE_COLOR', 'NODE_ENV'])
/** Exceptions: names of places from which launchers load code. */
const CODE_SOURCES = /(^|_)(download|mirror|registry|index|cdn|proxy|corepack|plugins?|hooks?)(_|$)/i

/** Variables that make a program load or run something, find other programs or settings, write somewhere, or trust others. */
const CODE_VARIABLES = new RegExp(
  `^(${[
    'node_(options|path|extra_ca_certs|tls_reject_unauthorized|v8_coverage|redirect_warnings|compile_cache|icu_data|repl_.*)',
    'npm_.*|yarn_.*|pnpm_.*|bun_.*|deno_.*|uv_.*|pip_.*|virtual_env|conda_.*',
    'ld_.*|dyld_.*|glibc_tunables|gconv_path|locpath|openssl_.*|ssl_cert_.*|(requests|curl)_ca_bundle',
    'python(path|startup|home|inspect|breakpoint|warnings|userbase|executable|platlibdir|pycacheprefix)',
    'perl5?(lib|opt|db)|ruby(opt|lib)|gem_.*|bundle_.*|lua_.*|phprc|php_ini_.*|r_profile.*|dotnet_.*|coreclr_.*|complus_.*',
    'java_tool_options|_java_options|jdk_java_options|java_home|classpath',
    'path|pathext|home|userprofile|(local)?appdata|xdg_.*|zdotdir|shell|comspec|bash_.*|env|shellopts|ps4|prompt_command|ifs|cdpath',
    'git_.*|ssh_.*|sudo_.*|editor|visual|pager|manpager|browser|lessopen|lessclose|terminfo.*',
    '(http|https|all|ftp)_proxy'
  ].join('|')})$`,
  'i'
)

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/
const HEADER = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/
const TEXT_MAX = 4096

export interface CommandPolicy {
  readonly launchers: readonly string[]
  /** Variables allowed in addition to the harmless names. */
  readonly variables: readonly string[]
}

/** @returns the problem, as a sentence for the administrator; null: none */
export function problemOf(config: McpServerConfig, policy: CommandPolicy): string | null {
  return config.type === 'stdio' ? problemOfCommand(config, policy) : problemOfAddress(config)
}

function problemOfCommand({ command, args, env }: McpServerConfig, policy: CommandPolicy): string | null {
  const { launchers, variables } = policy
  if (command === null || command === '') return 'a stdio server needs a command'
  if (!launchers.includes(command)) return `the command must be one of: ${launchers.join(', ')}`
  const bad = args.find((arg) => CODE_FLAGS.test(arg) || /[\0\r\n]/.test(arg) || arg.length > TEXT_MAX)
  if (bad !== undefined) return `the argument "${bad.slice(0, 100)}" is not allowed`
  const flags = LAUNCHER_FLAGS[command]
  if (flags !== undefined) {
    const name = args.find((arg) => !flags.has(arg))
    if (name === undefined) return 'the arguments name no package'
    if (!PACKAGE.test(name)) return `"${name.slice(0, 100)}" is not a package name`
  }
  const bare = Object.entries(env).find(([, value]) => value.includes('\0') || value.length > TEXT_MAX)
  if (bare !== undefined) return `the value of "${bare[0].slice(0, 100)}" is not allowed`
  const name = Object.keys(env).find((one) => !mayPass(one, variables))
  if (name === undefined) return null
  const text = `the variable "${name.slice(0, 100)}" is not allowed`
  return VARIABLE.test(name) && !CODE_VARIABLES.test(name) ? `${text}; add it to mcp.env_allowed` : text
}

/** An allow-list, because nobody knows all dangerous variables. */
function mayPass(name: string, variables: readonly string[]): boolean {
  if (!VARIABLE.test(name) || CODE_VARIABLES.test(name)) return false
  if (variables.includes(name) || PASSING.has(name)) return true
  const last = name.slice(name.lastIndexOf('_') + 1).toLowerCase()
  return PASSING_WORDS.has(last) && !CODE_SOURCES.test(name)
}

function problemOfAddress({ url, headers }: McpServerConfig): string | null {
  if (url === null || !isWebAddress(url))
    return 'an http or sse server needs a url that begins with http:// or https://'
  const header = Object.entries(headers).find(([name, value]) => !HEADER.test(name) || /[\0\r\n]/.test(value))
  return header === undefined ? null : `the header "${header[0].slice(0, 100)}" is not allowed`
}

/** http or https, without credentials, which would not be masked. */
export function isWebAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  return (url.protocol === 'http:' || url.protocol === 'https:') && url.username === '' && url.password === ''
}
