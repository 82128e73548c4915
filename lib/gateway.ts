// Composition: configuration -> store -> committer -> registry -> routes -> server. The list at the end of compose() is the order in
// which everything starts; it stops in reverse.
import { ofHeap } from './base/budget.ts'
import { extname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { contained } from './agent/contained.ts'
import type { Agent } from './agent/runtime.ts'
import { Egress } from './agent/mcp/egress.ts'
import type { StatePort } from './agent/states.ts'
import { ApiTokens, Invitations } from './auth/api-tokens.ts'
import { type Actor, Audit, linkName, SYSTEM, userName } from './auth/audit.ts'
import { Credentials, InnerCalls } from './auth/credentials.ts'
import { GroupAccess } from './auth/group-access.ts'
import { exportOf } from './auth/account-export.ts'
import { Holds } from './auth/holds.ts'
import { People } from './auth/people.ts'
import { SetupLink } from './auth/setup-link.ts'
import { openTokens, type Revocation, Sessions } from './auth/session.ts'
import { ThreadLinks } from './auth/thread-links.ts'
import { SingleSignOn } from './auth/single-sign-on.ts'
import { projectSettings } from './langgraph/project/config-file.ts'
import { AccessPolicy } from './langgraph/project/access-policy.ts'
import { composeAgent, graphPorts } from './compose/agent.ts'
import { composeServers } from './compose/http.ts'
import { composeJobs, writeOrRefused } from './compose/jobs.ts'
import { type Component, Components } from './compose/components.ts'
import { spansOf } from './compose/spans.ts'
import { databaseAccess, Reload, type Reloaded } from './compose/reload.ts'
import {
  drained,
  limitsOf,
  mapWriteErrors,
  newCommitter,
  placeOfEvents,
  registryOptions,
  takeOver
} from './compose/run.ts'
import { type Config, unusedOptions } from './config/config.ts'
import { fail, Failure, warnUnexpected } from './base/errors.ts'
import { holderBefore, homeId, leaveHolder, lockPremises } from './files/home.ts'
import { Artifacts } from './files/artifacts.ts'
import { Documents } from './files/documents.ts'
import { Paths } from './files/paths.ts'
import { Uploads } from './files/uploads.ts'
import { isLoopbackName } from './http/entry.ts'
import { listen, type Log } from './http/server.ts'
import { departureOf } from './jobs/departures.ts'
import { noticeDeed } from './jobs/notices.ts'
import { Removals } from './jobs/removals.ts'
import { Webhooks } from './jobs/webhooks.ts'
import { Items } from './memory/items.ts'
import { callerOfRun } from './base/loopback.ts'
import { Metrics, MetricsHour } from './metrics/metrics.ts'
import { ConfigurableHeaders } from './langgraph/api/configurable-headers.ts'
import { noticeOf, pushed } from './protocols/a2a/push.ts'
import { lastOfTask } from './protocols/tasks.ts'
import { finalValuesOf } from './routes/final-values.ts'
import { runView } from './routes/run-request.ts'
import { removeThread } from './routes/remove-thread.ts'
import type { Services } from './routes/services.ts'
import { BuiltStates } from './run/built-state.ts'
import { Cluster } from './run/cluster/cluster.ts'
import { type CommitObserver, WriteRefused } from './run/commit/committer.ts'
import { WriteHealthCheck } from './run/commit/write-health-check.ts'
import { WrittenStates } from './run/graph-state.ts'
import { isHeldBy } from './run/delivery/credential-revalidator.ts'
import { DepartedUsers } from './run/lifecycle/departed-users.ts'
import { Readiness } from './run/lifecycle/readiness.ts'
import { recover } from './run/lifecycle/recovery.ts'
import { Registry } from './run/lifecycle/registry.ts'
import { Runs } from './run/lifecycle/runs.ts'
import { daysKept, Sweeper } from './run/commit/sweeper.ts'
import { Assistants } from './thread/assistants.ts'
import { Personas } from './thread/personas.ts'
import { SearchIndexer } from './thread/search/indexer.ts'
import { StoredStates } from './thread/stored-states.ts'
import { QuotaBlocks } from './thread/quota-blocks.ts'
import { Quotas } from './thread/quotas.ts'
import { UserLimits } from './thread/user-limits.ts'
import { openStore } from './store/open.ts'
import { scopedStore } from './store/scoped.ts'
import { currentRequestId } from './base/scope.ts'
import { COMMIT, VERSION } from './base/version.ts'
import type { Store } from './store/store.ts'

export interface Gateway {
  /** `http://host:port` under which it answers. */
  readonly url: string
  readonly store: Store
  /** Sizes of everything that comes and goes with runs and readers. */
  sizes(): Readonly<Record<string, number>>
  /**
   * Reads the configuration again, here and on all other processes: what may change while it runs counts from now on, or nothing does.
   * @throws Failure configuration_invalid
   */
  reload(by?: Actor): Promise<Reloaded[]>
  /**
   * Refuses new runs at once, lets running ones finish within the grace period, ends the rest as interrupted with what
   * they have, resets streams and closes the store. Safe to call twice.
   */
  stop(): Promise<void>
}

export interface GatewayParts {
  readonly config: Config
  /** With its level, if that may change while it runs. */
  readonly log: Log & { level?: string }
  /** Reads the configuration again, or throws ConfigError; absent: it cannot be read again. */
  readonly readConfig?: () => Config
  /** Replaces the configured one: for tests and embedders. */
  readonly agent?: Agent
  readonly store?: Store
  /** Clients can connect; the start goes on. */
  readonly onListening?: () => void
}

/** How long a thread that was made for one run stays when its run never comes to its end, in minutes. */
const UNUSED_MINUTES = 60
/** Heartbeats from one look at the users of runs to the next. */
const BEATS_A_LOOK = 6
/** Timeout for pending responses after all streams were reset, in ms. */
const CLOSE_MS = 5000

/**
 * Opens the store, listens, and then recovers the runs of the previous process. Everything that can fail comes before
 * that, so a failing start does not begin queued runs. Requests that come before it is done wait for that.
 * @throws Error when the database cannot be opened or the address is taken
 */
export async function startGateway(parts: GatewayParts): Promise<Gateway> {
  const components = new Components()
  try {
    return await compose(parts, components)
  } catch (error) {
    await components.stop()
    throw error
  }
}

/** What V8 allows with --max-old-space-size=64: with less, a body of the largest kind can abort the process. */
const LEAST_HEAP_MB = 112

async function compose(parts: GatewayParts, components: Components): Promise<Gateway> {
  const { config, log } = parts
  const began = performance.now()
  const options = registryOptions(config)
  log.info(installationOf(config), 'starting')
  for (const sentence of unusedOptions(config)) log.warn({}, sentence)
  const heapMb = Math.floor(ofHeap(Number.POSITIVE_INFINITY, 1) / 2 ** 20)
  if (heapMb < LEAST_HEAP_MB)
    log.warn(
      { heap_mb: heapMb },
      `this process may use ${heapMb} MB of heap, and needs ${LEAST_HEAP_MB}: raise --max-old-space-size`
    )

  // Stopped last: everything else depends on these three.
  const unlock = lockPremises({
    home: config.home,
    canShare: canShareHome(config),
    databaseFile: config.database.backend === 'sqlite' && !parts.store ? config.database.sqlite_path : null
  })
  await components.start({ stop: () => unlock?.() })
  const store = parts.store ?? (await openStore(config, (fields, text) => log.warn(fields, text)))
  if (!parts.store) await components.start({ stop: () => store.close() })
  await components.start(await spansOf(config))
  const metrics = new Metrics()
  await components.start(metrics)

  const hour = new MetricsHour(async () => (await metrics.text()).body)
  const health = new WriteHealthCheck(() => committer.wroteAt)
  const observers: CommitObserver[] = [metrics, health]
  const committer = newCommitter(config, log, store, observers)
  const readiness = new Readiness({
    stuck: () => committer.stuck,
    trouble: () => health.failure(() => committer.write({ name: 'store.ping' }, 'limited'))
  })
  const writer = mapWriteErrors(committer, (userId, threadId) => registry.threadChanged(userId, threadId))
  const scoped = scopedStore(store)
  const project = config.agent.runtime === 'graphs' ? projectSettings(config.agent.config ?? '') : null
  const blocks = new QuotaBlocks({
    writer,
    onTrouble: (error) => log.warn({ err: error }, 'what is left of a quota could not be given back')
  })
  observers.push(blocks)
  const quotas = new Quotas(config.quotas, (id) => store.users.byId(id))
  const limits = new UserLimits({
    users: store.users,
    usage: store.usage,
    writer,
    limits: limitsOf(config),
    quotas,
    blocks,
    currency: config.usage.currency
  })
  const items = new Items(scoped.items, writer, config.items, project?.itemTtl ?? null)
  const paths = new Paths(config.home)
  const innerCalls = new InnerCalls(store.users)
  const personas = new Personas({ reads: store.assistants, writer })
  const agentServices = await composeAgent({
    config,
    paths,
    log,
    observer: metrics,
    adminId: async () => (await store.users.admin())?.id ?? null,
    graphs: graphPorts(store, committer, items, innerCalls, log),
    personas,
    project
  })
  const policy = agentServices.rules && new AccessPolicy(agentServices.rules)
  const agent = parts.agent ? contained(parts.agent) : agentServices.agent
  const stored = new StoredStates(store, writer, agent.graphs)
  const states: StatePort = agent.states ?? agent.statesOver?.(stored) ?? stored
  const runStates = agent.states
    ? new WrittenStates(store, agent.states)
    : new BuiltStates(store, options, {
        ...(states.elsewhere && { elsewhere: states.elsewhere.bind(states) }),
        showsDetails: agent.showsDetails === true,
        canRejoin: agent.canRejoin === true
      })
  const registry = new Registry({ store, states: runStates, committer, agent, options, log })

  const removeFiles = async (threadId: string, owner: string | null): Promise<boolean> => {
    await agentServices.forget(threadId, owner)
    return owner === null ? paths.removeSharedThread(threadId) : paths.removeThread(threadId, owner)
  }
  const endRevoked = (revocation: Revocation): void => {
    if ('userId' in revocation) departed.lookNow()
    void registry.streams
      .revalidate((reader) =>
        isHeldBy(reader, ({ credential, userId }) =>
          'digest' in revocation ? credential === revocation.digest : userId === revocation.userId
        )
      )
      .catch(warnUnexpected)
  }
  const tokens = await openTokens({
    home: config.home,
    secret: config.auth.jwt_secret,
    expiryDays: config.auth.token_expiry_days
  })
  const resumes = config.runs.on_restart === 'resume' && (states.isOfGraphs || agent.canResume === true)
  const goesOn = agent.canRejoin === true || resumes
  const abandon = agent.abandon?.bind(agent)
  const recovery = { store, states: runStates, writer: committer, registry, options, goesOn, abandon, log }
  if (goesOn)
    registry.recoverRun = (run) => recover([run], { ...recovery, ...(store.peers && { owner: store.peers.id }) })
  const cluster = store.peers
    ? new Cluster({
        ...recovery,
        peers: store.peers,
        onRevoked: endRevoked,
        identity: { secret: tokens.fingerprint, events: placeOfEvents(config), home: await homeId(config.home) },
        sharesFiles: config.files.shared,
        onRemoved: async (threadId, owner, hadRuns) => {
          await agentServices.forget(threadId, owner)
          // Unless the thread was recreated meanwhile: the files are the new one's.
          if (hadRuns && (await store.threads.ownerOf(threadId)) === undefined) await removeFiles(threadId, owner)
        },
        onNewId: (id) => unlock && leaveHolder(config.home, id),
        onConfiguration: (message, from) => reload.onMessage(message, from)
      })
    : null
  metrics.watch({ registry, committer, store, cluster })
  const onRevoked = (revocation: Revocation): void => {
    endRevoked(revocation)
    cluster?.revoked(revocation)
  }
  const audit = new Audit({ writer, log })
  const sessions = new Sessions({ users: store.users, tokens, writer, onRevoked, log })
  const apiTokens = new ApiTokens({
    reads: scoped.apiTokens,
    users: store.users,
    writer,
    log,
    onRevoked,
    onActing: (by, userId, address) =>
      void audit
        .record(
          'acting_for',
          { actor: userName(by), address: address || null, requestId: currentRequestId() },
          userName(userId)
        )
        .catch(warnUnexpected)
  })
  const threadLinks = new ThreadLinks({
    sharing: config.sharing,
    reads: scoped.apiTokens,
    writer,
    sessions,
    onRevoked,
    onOpened: ({ token_id, thread_id = '' }, viewerId, address) => {
      const actor = viewerId === null ? 'nobody' : userName(viewerId)
      const by = { actor, address: address || null, requestId: currentRequestId() }
      void audit.record('link_opened', by, linkName(token_id), { thread_id }).catch(warnUnexpected)
    }
  })
  const credentials = new Credentials(sessions, apiTokens, threadLinks, innerCalls)
  const documents = new Documents({
    onFailed: ({ name, size }, reason) =>
      log.warn({ extension: extname(name), size, reason }, 'an uploaded document has no text beside it')
  })
  const { app } = agentServices
  const egress = new Egress(config.webhooks.allowed_networks, undefined, 'webhooks.allowed_networks')
  const webhooks = new Webhooks({
    store,
    view: runView,
    valuesOf: (run) => finalValuesOf(run, states, registry.readers),
    told: (run) => pushed({ registry, store }, run),
    post: async (address, init, run) => {
      if (!address.startsWith('/') || !app) return egress.fetch(address, init)
      const caller = callerOfRun(run.user_id, run.kwargs)
      if (caller === null) throw new Error('the run has no user')
      return app.call(address, init, await innerCalls.principalFor(caller))
    },
    options: config.webhooks
  })
  const writeAll: Services['writeAll'] = (ops, owner) =>
    committer.writeAll(ops, 'limited', owner).catch((error: unknown) => {
      throw error instanceof WriteRefused ? fail('changed_meanwhile') : error
    })
  const removals = new Removals({
    store,
    remove: (threadId, finish, owner) =>
      removeThread(services, threadId, null, { finish, owner }).then(
        () => true,
        (error: unknown) => {
          if (error instanceof Failure && error.status < 500) return error.code === 'thread_not_found'
          throw error
        }
      ),
    removeFiles: (threadId, owner) => services.removeFiles(threadId, owner),
    change: (op) => writer.write(op),
    graceMs: config.runs.temporary_grace_ms,
    log
  })
  const services: Services = {
    config,
    store: scoped,
    writer,
    registry,
    writeAll,
    limits,
    runs: new Runs({
      store,
      writer,
      limits,
      registry,
      states,
      keptWebhooks: (threadId, runId) => webhooks.kept(threadId, runId),
      writeAll: (ops) => writeAll(ops),
      removalOf: ({ thread_id, user_id }) => ({ ...Removals.ttl(thread_id, user_id, UNUSED_MINUTES), payload: '{}' }),
      notReady: () => readiness.reason
    }),
    webhooks,
    removals,
    states,
    assistants: new Assistants({
      store: store.assistants,
      personas,
      graphs: () => states.graphs(),
      takesAnyName: !states.isOfGraphs
    }),
    personas,
    agent,
    models: () => agentServices.models() ?? agent.models?.() ?? [],
    policy,
    app,
    configurableHeaders: new ConfigurableHeaders(project?.http.headers ?? { include: [], exclude: [] }),
    uploads: new Uploads(paths, config.uploads, config.uploads.auto_convert_documents ? documents : null),
    artifacts: new Artifacts(paths),
    paths,
    items,
    ...agentServices.services,
    audit,
    access: new GroupAccess(config.auth.oidc.providers, (id) => store.users.byId(id)),
    log,
    isValid: (grant) => credentials.isValid(grant),
    unready: () => readiness.check(),
    metrics: () => metrics.text(),
    metricsHour: (after) => hour.since(after),
    reload: (by) => reload.everywhere(by),
    removeFiles: (threadId, owner) => {
      cluster?.removed(threadId, owner)
      return removeFiles(threadId, owner)
    }
  }
  const reload = new Reload({
    config,
    read:
      parts.readConfig ??
      (() => {
        throw new Error('this server was given its configuration, and cannot read it again')
      }),
    parts: [
      ...agentServices.reloadables,
      databaseAccess(store, config),
      {
        options: ['streams.per_user', 'streams.total'],
        prepare:
          ({ streams: { per_user: each, total: all } }) =>
          () =>
            registry.streams.quota.limitTo({ each, all })
      },
      { options: ['quotas'], prepare: () => () => requests.onReload() },
      {
        options: ['server.connections_per_address'],
        prepare: (next) => () => server.limitConnections(next.server.connections_per_address)
      },
      {
        options: ['server.trusted_proxies', 'server.trusted_hops'],
        prepare:
          ({ server }) =>
          () =>
            proxies.trust(server.trusted_proxies, server.trusted_hops)
      },
      {
        options: ['log.level', 'log_level'],
        prepare: (next) => () => {
          log.level = next.log.level
        }
      }
    ],
    peers: store.peers ?? null,
    audit,
    log
  })
  const jobs = composeJobs({
    config,
    log,
    store,
    committer,
    services,
    webhooks,
    removals,
    push: noticeDeed({
      lastOf: (task) => lastOfTask(store.runs, task),
      noticeOf: (run, config) => noticeOf({ registry }, run, config),
      send: (delivery, signal) => webhooks.send(delivery, signal),
      write: (ops, owner) => writeOrRefused(committer, ops, owner)
    }),
    isGone: (caller) => innerCalls.isGone(caller),
    audit,
    forgetUser: (userId) => {
      onRevoked({ userId })
      agentServices.forgetUser(userId)
      return paths.removeUser(userId)
    }
  })
  const people = new People({ store: scoped, writer, apiTokens, audit, home: config.home, departureOf, onRevoked })
  const { lifetimeS, seal } = tokens
  const sso = new SingleSignOn({
    ...{
      options: config.auth.oidc,
      users: store.users,
      writer,
      sessions,
      apiTokens,
      people,
      audit,
      seal,
      lifetimeS,
      log
    }
  })
  const indexer = new SearchIndexer({ store, write: (ops) => writeOrRefused(committer, ops), log })
  observers.push(jobs, indexer)
  const setupLink = needsSetupLink(config) ? new SetupLink(config.home) : null
  const { server, metricsServer, proxies, requests } = composeServers({
    config,
    log,
    services,
    accounts: {
      users: store.users,
      sessions,
      tokens,
      apiTokens,
      threadLinks,
      invitations: new Invitations(scoped.apiTokens, writer),
      people,
      holds: new Holds({ store, writer, audit }),
      sso,
      setupLink,
      limits,
      exportOf: (user) => exportOf({ store, folderOf: (userId) => paths.userDir(userId) }, user)
    },
    credentials,
    policy,
    app,
    project,
    threadOwner: (threadId) => store.threads.ownerOf(threadId),
    metrics,
    notYet: readiness.notYet
  })
  const kept = { frameHours: config.streams.retention_hours, days: daysKept(config.retention) }
  const sweeper = new Sweeper(committer, kept, (error) => log.warn({ err: error }, 'what is old could not be deleted'))

  const departed = new DepartedUsers({
    everyMs: BEATS_A_LOOK * config.streams.heartbeat_ms,
    runs: () => registry.runs(),
    isGone: async (run) => {
      const caller = callerOfRun(run.user_id, run.kwargs)
      return caller !== null && innerCalls.isGone(caller)
    },
    end: (runId) => registry.cancel(runId, 'interrupt', 'user_gone'),
    log
  })

  let url = ''
  let cut = { runs: 0, streams: 0 }
  const lease: Component = {
    start: () => cluster?.join(unlock ? holderBefore(config.home) : null),
    stop: () => cluster?.stop()
  }
  const metricsDoor: Component = {
    start: () => metricsServer && listen(metricsServer, 'metrics', config.metrics),
    stop: () => metricsServer?.close(0)
  }
  const door: Component = {
    start: async () => {
      url = await listen(server, 'server', config.server)
      innerCalls.url = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
      parts.onListening?.()
    },
    stop: () => {
      // After a start that failed nobody need wait for it.
      readiness.stop()
      return server.close(CLOSE_MS)
    }
  }
  const runs: Component = {
    start: async () => {
      await takeOver(cluster, recovery)
      readiness.serve()
    },
    // Connections are accepted until the grace period is over: readiness says 503, and clients that lose theirs can reconnect.
    stop: async () => {
      cut = await registry.stop(
        config.server.shutdown_grace_ms,
        () => void server.close(CLOSE_MS).catch(warnUnexpected)
      )
    }
  }
  const admission: Component = {
    stop: () => {
      readiness.stop()
      registry.drain()
    }
  }
  const order: readonly Component[] = [
    hour,
    lease, // kept until everything is written
    metricsDoor,
    drained(committer, config, log),
    agentServices,
    documents,
    door, // from here on it listens; requests wait until the runs are taken care of
    runs,
    departed,
    sweeper,
    removals,
    jobs,
    sso,
    indexer,
    blocks,
    admission // the first to stop: no new runs
  ]
  for (const component of order) await components.start(component)

  if ((await store.users.admin()) === null) {
    await setupLink?.write(config.server.public_url ?? url)
    if (setupLink) log.info({ file: setupLink.file }, 'there is no administrator yet: the link in this file makes one')
    else log.info({}, 'there is no administrator yet: create one with POST /api/v1/auth/initialize')
  }
  if (config.auth.registration === 'open' && !isLoopbackName(new URL(url).hostname))
    log.warn(
      { host: config.server.host },
      'anyone who can reach this address can register: set auth.registration to invite or closed to prevent that'
    )
  const sizes = () => ({ ...registry.sizes(), unwritten: committer.size })
  log.info({ url, took_ms: msSince(began) }, 'listening')
  let stopped: Promise<void> | null = null
  const stop = async () => {
    const since = performance.now()
    const { drain_ms } = config.server
    readiness.leave()
    if (drain_ms > 0) log.info({ drain_ms }, 'leaving: load balancers are to send nothing more')
    if (drain_ms > 0) await pause(drain_ms)
    log.info({ runs: registry.phases(), streams: registry.streams.size }, 'stopping: new runs are refused')
    await components.stop()
    log.info({ took_ms: msSince(since), cut }, 'stopped')
  }
  return {
    url,
    store,
    sizes,
    reload: (by = SYSTEM) => reload.everywhere(by),
    stop: () => {
      stopped ??= stop()
      return stopped
    }
  }
}

function msSince(time: number): number {
  return Math.round(performance.now() - time)
}

/** Whoever comes first makes the administrator: beyond this machine that could be anybody [Auth 11]. */
function needsSetupLink({ auth, server: { host } }: Config): boolean {
  return auth.local && auth.setup_link === 'auto' && !isLoopbackName(host.includes(':') ? `[${host}]` : host)
}

/** Describes an installation for the log; no URL that may contain a password. */
function installationOf({ file, home, database, run_events, agent, models }: Config): object {
  const nameOf = (backend: string | { readonly module: string }) =>
    typeof backend === 'string' ? backend : backend.module
  return {
    version: VERSION,
    commit: COMMIT,
    node: process.versions.node,
    configuration: file,
    home,
    database: nameOf(database.backend),
    run_events: nameOf(run_events.backend),
    agent: agent.runtime,
    models: models.map(({ name }) => name)
  }
}

/** Processes on one database may share a home, unless files in it have a single writer. */
function canShareHome({ database, run_events }: Config): boolean {
  return database.backend === 'postgres' && run_events.backend === 'db'
}
