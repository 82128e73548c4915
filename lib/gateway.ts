// Composition: configuration -> store -> committer -> registry -> routes -> server. Starting and stopping are in this one place,
// and stopping releases what starting acquired, in reverse order.
import { extname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Agent } from './agent/runtime.ts'
import { ApiTokens } from './auth/api-tokens.ts'
import { Credentials } from './auth/credentials.ts'
import { type Revocation, Sessions } from './auth/session.ts'
import { openTokens } from './auth/token.ts'
import { composeAgent } from './compose-agent.ts'
import type { Config } from './config.ts'
import { Failure, fail } from './errors.ts'
import { holderBefore, leaveHolder, lockHome } from './files/lock.ts'
import { Artifacts } from './files/artifacts.ts'
import { Documents } from './files/documents.ts'
import { Paths } from './files/paths.ts'
import { Uploads } from './files/uploads.ts'
import { Proxies } from './http/address.ts'
import { Origins } from './http/guards.ts'
import { createHttpServer, type HttpOptions, type Log } from './http/server.ts'
import { Metrics } from './metrics.ts'
import { routes } from './routes/index.ts'
import { watchRoutes } from './routes/metrics.ts'
import type { Services } from './routes/services.ts'
import { Cluster } from './run/cluster/cluster.ts'
import { Committer, WriteRefused } from './run/commit/committer.ts'
import type { JournalOptions } from './run/log/journal.ts'
import { Probe } from './run/commit/probe.ts'
import { recover } from './run/lifecycle/recovery.ts'
import { Registry, type RegistryOptions } from './run/lifecycle/registry.ts'
import { Runs } from './run/lifecycle/runs.ts'
import { Sweeper } from './run/commit/sweeper.ts'
import { openStore } from './store/open.ts'
import { type ScopedWriter, scopedStore, scopedWriter } from './store/scoped.ts'
import { type Store, StoreUnavailable } from './store/store.ts'

export interface Gateway {
  /** `http://host:port` under which it answers. */
  readonly url: string
  readonly store: Store
  /** How much is held of everything that comes and goes with runs and readers. */
  sizes(): Readonly<Record<string, number>>
  /**
   * Refuses new runs at once, lets the running ones finish within the grace, ends the rest as interrupted with what they have,
   * resets the streams and closes the store. Safe to call twice.
   */
  stop(): Promise<void>
}

export interface GatewayParts {
  readonly config: Config
  readonly log: Log
  /** In place of the configured one: for tests and embedders. */
  readonly agent?: Agent
  readonly store?: Store
}

/** Streams are reset over this time when the process ends, so that their clients do not all come back in one moment, in ms. */
const RESET_JITTER_MS = 5000

/**
 * Opens the store, takes care of what the process before left behind, and listens.
 * @throws Error when the database cannot be opened or the address is taken.
 */
export async function startGateway({
  config,
  log,
  agent: givenAgent,
  store: givenStore
}: GatewayParts): Promise<Gateway> {
  const unlock = lockHome(config.home, canShareHome(config))
  const store =
    givenStore ??
    (await openStore(config, (fields, text) => log.warn(fields, text)).catch((error: unknown) => {
      unlock?.()
      throw error
    }))
  const metrics = new Metrics()
  const probe = new Probe()
  const apply = probe.around(metrics.around((groups) => store.apply(groups)))
  const committer = new Committer(apply, {
    flushMs: config.streams.flush_ms,
    patienceMs: config.streams.settle_timeout_ms,
    troubleOf: () => store.trouble ?? null,
    onTrouble: (error, attempts) =>
      log.error({ err: error, attempts }, 'the store does not take a batch; it is tried again'),
    onRecovered: (attempts) => log.warn({ attempts }, 'the store takes writes again'),
    onBroken: (error) => log.error({ err: error }, 'a run could not hand over its records, or hear what became of them')
  })
  const paths = new Paths(config.home)
  const world = await composeAgent({ config, paths, log, observer: metrics })
  const agent = givenAgent ?? world.agent
  const registry = new Registry({ store, committer, agent, options: registryOptions(config), log })
  metrics.watch({ registry, committer, store })
  const writer = failingClearly(committer)
  const sweeper = new Sweeper(committer, config.streams.retention_hours, (error) =>
    log.warn({ err: error }, 'old frames could not be removed')
  )
  const proxies = new Proxies(config.server.trusted_proxies, (message) => log.warn({}, message))
  const tokens = await openTokens({
    home: config.home,
    secret: config.auth.jwt_secret,
    expiryDays: config.auth.token_expiry_days
  })
  const endRevoked = (revocation: Revocation): void =>
    void registry.streams.revalidate((reader) =>
      'digest' in revocation ? reader.credential === revocation.digest : reader.userId === revocation.userId
    )
  const removeFiles = (threadId: string, owner: string | null): Promise<boolean> => {
    world.forget(threadId)
    return owner === null ? paths.removeSharedThread(threadId) : paths.removeThread(threadId, owner)
  }
  const journal = journalOptions(config)
  const cluster = store.peers
    ? new Cluster({
        store,
        peers: store.peers,
        writer: committer,
        registry,
        journal,
        log,
        onRevoked: endRevoked,
        onRemoved: async (threadId, owner, hadRuns) => {
          world.forget(threadId)
          // Not if it was made anew meanwhile: its files are of the new one.
          if (hadRuns && (await store.threads.ownerOf(threadId)) === undefined) await removeFiles(threadId, owner)
        },
        onNewId: (id) => unlock && leaveHolder(config.home, id)
      })
    : null
  const onRevoked = (revocation: Revocation): void => {
    endRevoked(revocation)
    cluster?.revoked(revocation)
  }
  const sessions = new Sessions({ users: store.users, tokens, writer, onRevoked })
  const scoped = scopedStore(store)
  const apiTokens = new ApiTokens({ reads: scoped.apiTokens, writer, log, onRevoked })
  const credentials = new Credentials(sessions, apiTokens)

  const notReady = () => {
    if (registry.refusal === 'stopping') return 'the server is shutting down'
    if (registry.refusal === 'store_stuck') return `the database does not take writes: ${committer.stuck}`
    return null
  }
  const unready = async () => {
    const reason = notReady()
    if (reason !== null) return reason
    const trouble = await probe.failure(() => committer.write({ name: 'store.touch' }, 'limited'))
    return notReady() ?? (trouble === null ? null : `the database does not take writes: ${trouble}`)
  }
  const documents = new Documents({
    onFailed: ({ name, size }, reason) =>
      log.warn({ extension: extname(name), size, reason }, 'an uploaded document has no text beside it')
  })
  const services: Services = {
    config,
    store: scoped,
    writer,
    registry,
    runs: new Runs({ store, writer, registry, notReady }),
    agent,
    uploads: new Uploads(paths, config.uploads, config.uploads.auto_convert_documents ? documents : null),
    artifacts: new Artifacts(paths),
    paths,
    ...world.services,
    log,
    holds: (right) => credentials.holds(right),
    notReady,
    unready,
    metrics: () => metrics.text(),
    removeFiles: (threadId, owner) => {
      cluster?.removed(threadId, owner)
      return removeFiles(threadId, owner)
    }
  }
  const common: Omit<HttpOptions, 'routes'> = {
    authenticate: (credential) => credentials.authenticate(credential),
    threadOwner: (threadId) => store.threads.ownerOf(threadId),
    origins: new Origins(config.server.cors_origins, (message) => log.warn({}, message)),
    proxies,
    publicUrl: config.server.public_url,
    log,
    failureOf: unreachable
  }
  const server = createHttpServer({
    ...common,
    onAnswered: (...answer) => metrics.request(...answer),
    routes: routes(services, {
      config,
      users: store.users,
      writer,
      sessions,
      tokens,
      apiTokens,
      log,
      countable: (call) => !proxies.isFrontEnd(call.req),
      onLoginRefused: (code) => metrics.loginRefused(code)
    })
  })
  const watchers = config.metrics.port === 0 ? null : createHttpServer({ ...common, routes: watchRoutes(services) })

  /** A store that takes nothing must not keep the process: what started is ended by the next one [design 4, rule 5]. */
  const drainedInTime = async () => {
    const timeout = new AbortController()
    const late = pause(config.streams.settle_timeout_ms, 'late', { signal: timeout.signal }).catch(() => {})
    if ((await Promise.race([committer.drained(), late])) === 'late')
      log.error({ reason: committer.stuck }, 'the store has not taken everything; what it has not is lost')
    timeout.abort()
  }

  const stopAll = async () => {
    registry.refuseNew()
    sweeper.stop()
    // Not before the grace is over: until then readiness says 503, and who loses its connection can come back.
    let closed = Promise.resolve()
    await registry.stop(config.server.shutdown_grace_ms, RESET_JITTER_MS, () => {
      closed = server.close(RESET_JITTER_MS)
    })
    await closed
    documents.close()
    await world.close()
    await drainedInTime()
    committer.stop()
    await watchers?.close(0)
    metrics.stop()
    await cluster?.stop()
    if (!givenStore) await store.close()
    unlock?.()
  }
  let stopped: Promise<void> | null = null
  const stop = () => {
    stopped ??= stopAll()
    return stopped
  }

  try {
    if (cluster) await cluster.start(unlock ? holderBefore(config.home) : null)
    else {
      const found = await recover(await store.runs.unfinished(), { store, writer: committer, registry, journal, log })
      if (found.ended || found.resumed) log.warn(found, 'runs of the process before this one were ended and resumed')
    }
    if ((await store.users.admin()) === null)
      log.info({}, 'there is no administrator yet: POST /api/v1/auth/initialize makes one')
    sweeper.start()
    await world.start()
    await watchers?.listen(config.metrics.port, config.metrics.host)
    const { url } = await server.listen(config.server.port, config.server.host)
    return { url, store, sizes: () => ({ ...registry.sizes(), unwritten: committer.size }), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Processes of one database may share its home as well, unless files there are of one writer. */
function canShareHome({ database, run_events }: Config): boolean {
  return database.backend === 'postgres' && run_events.backend === 'db'
}

function journalOptions({ run_events }: Config): JournalOptions {
  return { maxTraceContent: run_events.max_trace_content, trackTokens: run_events.track_token_usage }
}

function registryOptions(config: Config): RegistryOptions {
  const { streams, runs, title } = config
  return {
    ...journalOptions(config),
    heartbeatMs: streams.heartbeat_ms,
    stallMs: streams.stall_ms,
    gatherMs: streams.gather_ms,
    streams: { perUser: streams.per_user, total: streams.total },
    activePerUser: runs.active_per_user,
    windowBytes: streams.window_bytes,
    pendingBytes: streams.pending_bytes,
    eventBytes: streams.event_bytes,
    settleTimeoutMs: streams.settle_timeout_ms,
    disconnectGraceMs: runs.disconnect_grace_ms,
    timeoutMs: runs.timeout_s * 1000,
    recursionLimit: runs.recursion_limit,
    title
  }
}

/** A database that does not answer a read is none of the request's fault, and may answer the next one. */
function unreachable(error: unknown): Failure | null {
  if (!(error instanceof StoreUnavailable)) return null
  return new Failure('store_unreachable', { reason: error.message }, { 'Retry-After': '5' })
}

/** A request's write that the store refuses has met somebody else's: its thread is gone. That is a conflict, not a failure. */
function failingClearly(committer: Committer): ScopedWriter {
  return scopedWriter({
    async write(op) {
      try {
        return await committer.write(op, 'limited')
      } catch (error) {
        if (error instanceof WriteRefused) throw fail('changed_meanwhile')
        throw error
      }
    }
  })
}
