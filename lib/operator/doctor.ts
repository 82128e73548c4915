// colloquy doctor: looks at an installation from the machine that it is on, and says what is wrong and how to mend it. It changes nothing.
import { constants, existsSync, readFileSync } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { delimiter, resolve } from 'node:path'
import { getHeapStatistics } from 'node:v8'
import { messageOf, codeOf } from '../base/errors.ts'
import { type Config, unusedOptions } from '../config/config.ts'
import { isLoopbackName } from '../base/networks.ts'
import { toolServerSeal } from '../auth/seal.ts'
import { isObject, type JsonObject } from '../base/types.ts'
import { Extensions } from '../files/extensions.ts'
import { idOfHome, isServed } from '../files/home.ts'
import { checkMailServer, senderOf } from '../jobs/mail-server.ts'
import { conditionOf, openDatabase, planSchema } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import { arrivalOf, isDirect, problemsOf } from './arrival.ts'

/** `warn`: it works, and not as well or not for long. */
export interface Finding {
  readonly check: string
  readonly is: 'good' | 'warn' | 'bad'
  /** What was found; of what is not good, what to do. Never a secret. */
  readonly text: string
}

type Check = (config: Config) => Promise<Omit<Finding, 'check'> | null>

const MIB = 2 ** 20
const LEAST_HEAP_MB = 112
const LEAST_DISK_MB = 1024
/** Descriptors for everything that is no stream. */
const OTHER_DESCRIPTORS = 256
const TIMEOUT_MS = 5_000
const SKEW_S = 2
const DAY_MS = 86_400_000
const BACKUP_DAYS = 7
const LEAST_NODE = [20, 20] as const

const good = (text: string) => ({ is: 'good', text }) as const
const warn = (text: string) => ({ is: 'warn', text }) as const
const bad = (text: string) => ({ is: 'bad', text }) as const

const CHECKS: Readonly<Record<string, Check>> = {
  node: async () => {
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
    const isNew = major > LEAST_NODE[0] || (major === LEAST_NODE[0] && minor >= LEAST_NODE[1])
    return isNew ? good(process.version) : bad(`${process.version}: Node ${LEAST_NODE.join('.')} is the least`)
  },

  options: async (config) => {
    const unused = unusedOptions(config)
    return unused.length === 0 ? good(config.file ?? 'defaults and environment') : warn(unused.join('; '))
  },

  binding: async ({ server: { host, public_url, trusted_proxies }, auth }) => {
    if (isLoopbackName(host)) return good(`${host}: this machine alone`)
    if (auth.local && auth.registration === 'open')
      return warn(
        `${host} and auth.registration is open: anyone who can reach it may register. Set it to invite or closed`
      )
    if (public_url === null || trusted_proxies.length === 0)
      return warn(`${host}: set server.public_url, and server.trusted_proxies to the proxy that ends TLS`)
    return good(`${host}, known as ${new URL(public_url).host}`)
  },

  port: async ({ home, database, server: { host, port } }) => {
    if (existsSync(database.sqlite_path) && isServed(home, database.sqlite_path))
      return good('a server runs on this home')
    const problem = await new Promise<string | null>((resolve) => {
      const probe = createServer()
      probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
      probe.listen(port, host, () => probe.close(() => resolve(null)))
    })
    return problem === null
      ? good(`${host}:${port} is free`)
      : warn(`${host}:${port}: ${problem}; is another program there?`)
  },

  home: async ({ home }) => {
    if (!existsSync(home)) return good(`${home} will be made at the first start`)
    const { mode } = await stat(home)
    await access(home, constants.R_OK | constants.W_OK)
    return (mode & 0o077) === 0 ? good(home) : warn(`${home} can be read by others of this machine: chmod 700 it`)
  },

  disk: async ({ home }) => {
    const { bavail, bsize } = await statfs(existsSync(home) ? home : '.')
    const free = Math.floor((bavail * bsize) / MIB)
    return free >= LEAST_DISK_MB
      ? good(`${free} MB are free`)
      : bad(`${free} MB are free: make room before writes fail`)
  },

  descriptors: async ({ streams: { total } }) => {
    if (process.platform !== 'linux') return null
    const [, soft = ''] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    const needed = total + OTHER_DESCRIPTORS
    return soft === 'unlimited' || Number(soft) >= needed
      ? good(`${soft} for streams.total ${total}`)
      : warn(
          `${soft} are fewer than streams.total needs (${needed}): raise LimitNOFILE or ulimit -n, or lower streams.total`
        )
  },

  heap: async () => {
    const mb = Math.floor(getHeapStatistics().heap_size_limit / MIB)
    return mb >= LEAST_HEAP_MB ? good(`${mb} MB`) : bad(`${mb} MB: raise --max-old-space-size`)
  },

  secret: async ({ auth: { jwt_secret }, database }) =>
    jwt_secret === null && database.backend === 'postgres'
      ? warn('auth.jwt_secret is not set: processes without a home in common do not know each other’s sessions')
      : good(jwt_secret === null ? 'of the home' : 'of auth.jwt_secret'),

  database: (config) =>
    withStore(config, async (store) => {
      const { total } = await store.users.list({ limit: 1, offset: 0 })
      const hasAdmin = (await store.users.admin()) !== null
      return hasAdmin ? good(`it answers; ${total} accounts`) : warn('it answers, and there is no administrator yet')
    }),

  schema: async (config) => {
    const { backend, sqlite_path } = config.database
    if (typeof backend === 'object' || backend === 'memory') return null
    if (backend === 'sqlite' && !existsSync(sqlite_path)) return null
    const { schema, steps } = await planSchema(config)
    if (schema === 0) return null
    if (steps.some(({ phase }) => phase !== 'contract'))
      return warn(`${schema}, to be changed: colloquy migrate --plan`)
    return steps.length === 0
      ? good(`${schema}`)
      : warn(`${schema}, with forms for older versions: when none serves any more, colloquy migrate --contract`)
  },

  jobs: (config) =>
    withStore(config, async ({ jobs }) => {
      const dead = await jobs.list({ isDead: true, limit: 100, offset: 0 })
      return dead.length === 0
        ? good('none has failed for good')
        : warn(`${dead.length}${dead.length === 100 ? ' or more' : ''} have failed for good: colloquy jobs list --dead`)
    }),

  engine: async ({ database }) => {
    const found = await conditionOf(database)
    if (found === null) return null
    const { engine, waiting } = found
    return waiting === 0 ? good(engine) : warn(`${engine}; ${waiting} statements wait for locks of others`)
  },

  homes: async ({ home, database, files }) => {
    if (database.backend !== 'postgres' || !files.shared) return null
    const homes = (await conditionOf(database))?.homes ?? []
    const own = idOfHome(home)
    const isOther = homes.some((id) => id !== own)
    return isOther
      ? bad(`${home} is not the home of the processes that run: use theirs, or set files.shared to false`)
      : good(homes.length === 0 ? 'no process runs' : 'that of all processes')
  },

  backup: (config) =>
    withStore(config, async ({ audit }) => {
      const [last] = await audit.list({ action: 'backup', limit: 1 })
      if (last === undefined) return warn('colloquy backup has made none')
      const days = Math.floor((Date.now() - Date.parse(last.at)) / DAY_MS)
      return days <= BACKUP_DAYS
        ? good(`the last is of ${last.at}`)
        : warn(`the last one is ${days} days old: colloquy backup`)
    }),

  proxy: async ({ server }) => {
    const { public_url, port } = server
    if (public_url === null || port === 0) return null
    const arrival = await arrivalOf(public_url, server)
    if (arrival === 'taken') return good('a server runs here: what a proxy sends is looked at while none does')
    if (arrival === null) return warn(`what is asked of ${new URL(public_url).host} does not arrive here`)
    if (isDirect(arrival)) return good('none stands in between')
    const problems = problemsOf(arrival, { server })
    return problems.length === 0 ? good('address and scheme arrive') : warn(`of a request: ${problems.join('; ')}`)
  },

  tools: async ({ home, mcp }) => {
    const { mcpServers } = await new Extensions(home, toolServerSeal(mcp.secrets_key)).read()
    const used = Object.entries(mcpServers).filter(([, server]) => isObject(server) && server.enabled !== false)
    if (used.length === 0) return null
    const answers = await Promise.all(used.map(([name, server]) => problemOfServer(name, server as JsonObject)))
    const problems = answers.filter((answer) => answer !== null)
    return problems.length === 0 ? good(`${used.length} can be reached`) : bad(problems.join('; '))
  },

  models: async ({ models }) => {
    if (models.length === 0) return warn('none: the demo model answers')
    const answers = await Promise.all(models.map(({ name, base_url }) => reach(name, base_url)))
    const problems = answers.filter((answer) => answer !== null)
    return problems.length === 0 ? good(`${models.length} can be reached`) : bad(problems.join('; '))
  },

  providers: async ({ auth: { oidc } }) => {
    if (oidc.providers.length === 0) return null
    const answers = await Promise.all(
      oidc.providers.map(({ id, issuer }) => reach(id, `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`))
    )
    const problems = answers.filter((answer) => answer !== null)
    return problems.length === 0 ? good('all can be reached') : bad(problems.join('; '))
  },

  mail: async ({ mail, server }) => {
    if (mail.url === null) return null
    await checkMailServer({ url: mail.url, from: senderOf({ mail, server }) })
    return good('the mail server takes our sign-in')
  },

  clock: async ({ models, auth: { oidc } }) => {
    const address = oidc.providers[0]?.issuer ?? models[0]?.base_url
    const response = address === undefined ? null : await asked(address).catch(() => null)
    await response?.body?.cancel()
    const date = Date.parse(response?.headers.get('date') ?? '')
    if (Number.isNaN(date)) return null
    const skew = Math.round((Date.now() - date) / 1000)
    return Math.abs(skew) <= SKEW_S ? good('right') : warn(`${skew} s from that of ${new URL(address!).host}: use NTP`)
  }
}

/** Checks that listen where the server does: not for it to make. */
const ARRIVAL: ReadonlySet<string> = new Set(['port', 'proxy'])

/** `isServing`: it is the server that looks. Never rejects: what cannot be looked at is a finding. */
export async function examine(config: Config, { isServing = false } = {}): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const [check, look] of Object.entries(CHECKS)) {
    if (isServing && ARRIVAL.has(check)) continue
    const found = await look(config).catch((error: unknown) => bad(reasonOf(error)))
    if (found) findings.push({ check, ...found })
  }
  return findings
}

/** A database that is not there yet is none that could be wrong; looking at it must not make or migrate it. */
async function withStore(config: Config, look: (store: Store) => Promise<Omit<Finding, 'check'>>) {
  const { backend, sqlite_path } = config.database
  if (backend === 'memory') return warn('memory: nothing is kept over a restart')
  if (backend === 'sqlite' && !existsSync(sqlite_path)) return good(`${sqlite_path} will be made at the first start`)
  const store = await openDatabase(config, () => {}, { mayMigrate: false })
  try {
    return await look(store)
  } finally {
    await store.close()
  }
}

/** Whether a tool server is there; its arguments, address and headers may have secrets. */
async function problemOfServer(name: string, { url, command }: JsonObject): Promise<string | null> {
  if (typeof url === 'string') return reach(name, url)
  if (typeof command !== 'string') return `${name} has neither an address nor a command`
  const folders = (process.env.PATH ?? '').split(delimiter)
  const isThere = folders.some((folder) => existsSync(resolve(folder, command)))
  return isThere ? null : `${name}: its command is not on the PATH`
}

/** null: something answers there. The address is not shown: it may have a key. */
async function reach(name: string, address: string): Promise<string | null> {
  try {
    // Of a stream the rest would keep this process from ending.
    await (await asked(address)).body?.cancel()
    return null
  } catch (error) {
    // Messages name the address, with what it has of secrets.
    return `${name} cannot be reached (${codeWithin(error) ?? 'no answer, or no address that can be asked'})`
  }
}

function asked(address: string): Promise<Response> {
  return fetch(address, { method: 'GET', redirect: 'manual', signal: AbortSignal.timeout(TIMEOUT_MS) })
}

/** `fetch` keeps the system's error as its cause. */
function codeWithin(error: unknown): string | null {
  return codeOf(error instanceof Error && error.cause instanceof Error ? error.cause : error)
}

function reasonOf(error: unknown): string {
  return codeWithin(error) ?? messageOf(error)
}
