// Reads the configuration again when asked, on every process: what may change in a running gateway is taken, all of it or nothing.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Actor, Audit } from '../auth/audit.ts'
import { fail, warnUnexpected, messageOf } from '../base/errors.ts'
import { type Config, ConfigError } from '../config/config.ts'
import type { Log } from '../http/server.ts'
import type { ConfigurationReply, PeerMessage, Peers, Store } from '../store/store.ts'

/** Options that are read where they are used, and so count as soon as they are there. */
const LIVE = [
  'runs.active_per_user',
  'threads.per_user',
  'threads.user_bytes',
  'crons.per_user',
  'webhooks.per_user',
  'items.per_user',
  'items.user_bytes',
  'items.item_bytes',
  'uploads.max_files',
  'uploads.max_file_size',
  'uploads.max_total_size',
  'uploads.user_bytes',
  'quotas'
] as const

// biome-ignore lint/suspicious/noConfusingVoidType: most take options alone, and return nothing
type Take = () => readonly string[] | void

/** A part of the gateway that can take options while it runs. */
export interface Reloadable {
  /** Their names, or those of their sections. */
  readonly options: readonly string[]
  /**
   * Asked of all parts before any of them takes something.
   * Null: this change takes a restart. What is returned takes it, and names what it takes beside options.
   * @throws Error with a sentence: what is wrong
   */
  prepare(next: Config): Promise<Take | null> | Take | null
}

/** What one process has made of its configuration. */
export type Reloaded = ConfigurationReply & { readonly process: string }

interface ReloadParts {
  /** The one that everybody reads. */
  readonly config: Config
  /** null: this server was given its configuration, and cannot read it again. @throws ConfigError */
  readonly read: (() => Config) | null
  readonly parts: readonly Reloadable[]
  readonly peers: Peers | null
  readonly audit: Pick<Audit, 'record'>
  readonly log: Log
}

/** How long the other processes have to answer, in ms. */
const ANSWER_MS = 5000
/** A notification of PostgreSQL has 8,000 bytes. */
const PROBLEMS_MAX = 10
const PROBLEM_LENGTH = 300

export class Reload {
  readonly #parts: ReloadParts
  /** One after the other. */
  #last: Promise<unknown> = Promise.resolve()
  /** Replies that are waited for, by the id of the question. */
  readonly #asked = new Map<string, (from: string, reply: ConfigurationReply) => void>()

  constructor(parts: ReloadParts) {
    this.#parts = parts
  }

  /**
   * On this process, and if its configuration is good on all others.
   * @throws Failure configuration_invalid: nothing has changed anywhere
   */
  async everywhere(by: Actor): Promise<Reloaded[]> {
    const { peers, audit, log } = this.#parts
    const own = await this.here()
    const process = peers?.id ?? 'this'
    if (own.problems.length > 0) throw fail('configuration_invalid', { problems: own.problems.join(' ') })
    const replies = [{ process, ...own }, ...(peers ? await this.#others(peers) : [])]
    await audit.record('configuration', by, null, {
      taken: [...own.taken],
      left: [...own.left],
      processes: replies.length
    })
    for (const { process, problems } of replies)
      if (problems.length > 0) log.error({ process, problems }, 'another process has not taken its configuration')
    return replies
  }

  /** On this process alone. */
  here(): Promise<ConfigurationReply> {
    const done = this.#last.then(() => this.#take())
    this.#last = done
    return done
  }

  /** Another process asks for it, or has answered. */
  onMessage(message: Extract<PeerMessage, { kind: 'reconfigure' | 'reconfigured' }>, from: string): void {
    const { question } = message
    if (message.kind === 'reconfigured') return this.#asked.get(question)?.(from, message.reply)
    this.here()
      .then((reply) => this.#parts.peers?.tell(from, { kind: 'reconfigured', question, reply: shortened(reply) }))
      .catch(warnUnexpected)
  }

  async #take(): Promise<ConfigurationReply> {
    const { config, log } = this.#parts
    try {
      const { read } = this.#parts
      if (!read) throw new Error('this server was given its configuration, and cannot read it again')
      const next = read()
      const { options, apply } = await this.#prepared(next)
      const isTaken = (name: string) => options.some((one) => name === one || name.startsWith(`${one}.`))
      const changed = changesOf(config, next)
      const left = changed.filter((name) => !isTaken(name))
      // Nothing is awaited from here on: all of it counts, or nothing does.
      for (const name of options) copyOption(config, next, name)
      const taken = [...changed.filter(isTaken), ...apply.flatMap((one) => one() ?? [])]
      log.info({ taken, left }, 'the configuration was read again')
      return { taken, left, problems: [] }
    } catch (error) {
      const problems = error instanceof ConfigError ? error.problems : [messageOf(error)]
      log.error({ problems }, 'the configuration is wrong: everything stays as it is')
      return { taken: [], left: [], problems }
    }
  }

  async #prepared(next: Config): Promise<{ readonly options: readonly string[]; readonly apply: Take[] }> {
    const options: string[] = [...LIVE]
    const apply: Take[] = []
    for (const part of this.#parts.parts) {
      const one = await part.prepare(next)
      if (one === null) continue
      options.push(...part.options)
      apply.push(one)
    }
    return { options, apply }
  }

  async #others(peers: Peers): Promise<Reloaded[]> {
    const others = new Set(await peers.others())
    const replies: Reloaded[] = []
    if (others.size === 0) return replies
    const question = randomUUID()
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, ANSWER_MS)
      this.#asked.set(question, (process, reply) => {
        if (others.delete(process)) replies.push({ process, ...reply })
        if (others.size > 0) return
        clearTimeout(late)
        resolve()
      })
      peers.tell(null, { kind: 'reconfigure', question })
    })
    this.#asked.delete(question)
    const problems = [`no answer within ${ANSWER_MS / 1000} s: is it still there?`]
    return [...replies, ...[...others].map((process) => ({ process, taken: [], left: [], problems }))]
  }
}

/** What the servers, the streams and the log take while they run. `http`: there when the first configuration is read again. */
export function whatReloads({
  log,
  quota,
  http
}: {
  readonly log: { level?: string }
  readonly quota: { limitTo(limits: { each: number; all: number }): void }
  // Not what servers are made of: whoever imports the package would have to find the types of its optional peers.
  readonly http: () => {
    readonly server: { limitConnections(max: number): void }
    readonly proxies: { trust(networks: readonly string[], hops: number): void }
    readonly requests: { onReload(): void }
  }
}): Reloadable[] {
  return [
    {
      options: ['streams.per_user', 'streams.total'],
      prepare: (next) => () => quota.limitTo({ each: next.streams.per_user, all: next.streams.total })
    },
    { options: ['quotas'], prepare: () => () => http().requests.onReload() },
    {
      options: ['server.connections_per_address'],
      prepare: (next) => () => http().server.limitConnections(next.server.connections_per_address)
    },
    {
      options: ['server.trusted_proxies', 'server.trusted_hops'],
      prepare:
        ({ server: { trusted_proxies: networks, trusted_hops: hops } }) =>
        () =>
          http().proxies.trust(networks, hops)
    },
    {
      options: ['log.level', 'log_level'],
      prepare: (next) => () => {
        log.level = next.log.level
      }
    }
  ]
}

/** The password of the database, and whatever else of its URL names no other one. */
export function databaseAccess(store: Pick<Store, 'withUrl'>, { database }: Config): Reloadable {
  return {
    options: ['database.postgres_url'],
    prepare: async ({ database: { postgres_url: next } }) => {
      const url = database.postgres_url
      if (next === url) return () => {}
      if (!store.withUrl || !url || !next || placeOf(next) !== placeOf(url)) return null
      return store.withUrl(next).catch((error: unknown) => {
        throw new Error(`database.postgres_url: ${messageOf(error)}`)
      })
    }
  }
}

/** Which database it is, without who asks. */
function placeOf(postgresUrl: string): string {
  const { host, pathname, search } = new URL(postgresUrl)
  return host + pathname + search
}

function shortened({ taken, left, problems }: ConfigurationReply): ConfigurationReply {
  return { taken, left, problems: problems.slice(0, PROBLEMS_MAX).map((one) => one.slice(0, PROBLEM_LENGTH)) }
}

/** Names of the options that differ, as `section.option`. */
function changesOf(now: Config, next: Config): string[] {
  const names = Object.keys(now) as (keyof Config)[]
  return names.flatMap((name) => {
    const [a, b]: unknown[] = [now[name], next[name]]
    if (isDeepStrictEqual(a, b)) return []
    if (!isSection(a) || !isSection(b)) return [name]
    return [...new Set([...Object.keys(a), ...Object.keys(b)])]
      .filter((option) => !isDeepStrictEqual(a[option], b[option]))
      .map((option) => `${name}.${option}`)
  })
}

/** Writes one option, or a whole section, into the configuration that everybody reads: nobody else does. */
function copyOption(config: Config, next: Config, name: string): void {
  const [first = '', option] = name.split('.')
  // Readonly is meant for all others.
  const [to, from] = [config as unknown as Record<string, unknown>, next as unknown as Record<string, unknown>]
  const [now, then] = [to[first], from[first]]
  if (!isSection(now) || !isSection(then)) to[first] = then
  else if (option === undefined) Object.assign(now, then)
  else now[option] = then[option]
}

function isSection(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
