// Composition: configuration -> store -> committer -> registry -> routes -> server. The list at the end of compose() is the order in
// which everything starts; it stops in reverse.
import { extname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { contained } from './agent/contained.ts'
import type { Agent } from './agent/runtime.ts'
import type { StatePort } from './agent/states.ts'
import { type Actor, SYSTEM } from './auth/audit.ts'
import { InnerCalls } from './auth/credentials.ts'
import { GroupAccess } from './auth/group-access.ts'
import type { Revocation } from './auth/session.ts'
import { projectSettings } from './langgraph/project/config-file.ts'
import { AccessPolicy } from './langgraph/project/access-policy.ts'
import { composeAccounts, composeLimits, welcome } from './compose/accounts.ts'
import { composeAgent, graphPorts } from './compose/agent.ts'
import { composeServers, listen } from './compose/http.ts'
import { composeJobs, composeRemovals, composeWebhooks, composeWebPush, writeOrRefused } from './compose/jobs.ts'
import { type Component, Components } from './compose/components.ts'
import { lockInstallation, reportInstallation } from './compose/installation.ts'
import { spansOf } from './compose/spans.ts'
import { databaseAccess, Reload, type Reloaded, whatReloads } from './compose/reload.ts'
import {
  departedUsers,
  drained,
  endStreams,
  identityOf,
  mapWriteErrors,
  newCommitter,
  registryOptions,
  runStatesOf,
  takeOver,
  unlessChanged
} from './compose/run.ts'
import type { Config } from './config/config.ts'
import { warnUnexpected } from './base/errors.ts'
import { holderBefore, leaveHolder } from './files/home.ts'
import { Artifacts } from './files/artifacts.ts'
import { WorkspaceChanges } from './files/changes.ts'
import { Documents } from './files/documents.ts'
import { Paths } from './files/paths.ts'
import { Uploads } from './files/uploads.ts'
import type { Log } from './http/server.ts'
import { Removals } from './jobs/removals.ts'
import { Items } from './memory/items.ts'
import { Metrics, MetricsHour } from './metrics/metrics.ts'
import { ConfigurableHeaders } from './langgraph/api/configurable-headers.ts'
import type { Services } from './routes/services.ts'
import { Cluster } from './run/cluster/cluster.ts'
import type { CommitObserver } from './run/commit/ports.ts'
import { WriteHealthCheck, Readiness } from './run/lifecycle/readiness.ts'
import { recover } from './run/lifecycle/recovery.ts'
import { Registry } from './run/lifecycle/registry.ts'
import { Runs } from './run/lifecycle/runs.ts'
import { daysKept, Sweeper } from './run/commit/sweeper.ts'
import { Assistants } from './thread/assistants.ts'
import { Personas } from './thread/personas.ts'
import { SearchIndexer } from './thread/search/indexer.ts'
import { StoredStates } from './thread/stored-states.ts'
import { openStore } from './store/open.ts'
import { scopedStore } from './store/scoped.ts'
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

async function compose(parts: GatewayParts, components: Components): Promise<Gateway> {
  const { config, log } = parts
  const began = performance.now()
  const options = registryOptions(config)
  reportInstallation(config, log)

  // Stopped last: everything else depends on these three.
  const unlock = lockInstallation(config, !parts.store)
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
  const { limits, blocks } = composeLimits({ config, log, store, writer })
  observers.push(blocks)
  const items = new Items(scoped.items, writer, config.items, project?.itemTtl ?? null)
  const paths = new Paths(config.home)
  const innerCalls = new InnerCalls(store.users)
  const personas = new Personas({ reads: store.assistants, writer })
  const access = new GroupAccess(config.auth.oidc.providers, (id) => store.users.byId(id))
  const agentServices = await composeAgent({
    config,
    paths,
    log,
    observer: metrics,
    adminId: async () => (await store.users.admin())?.id ?? null,
    graphs: graphPorts(store, committer, items, innerCalls, log),
    personas,
    access,
    project,
    hasPeers: Boolean(store.peers)
  })
  const policy = agentServices.rules && new AccessPolicy(agentServices.rules)
  const agent = parts.agent ? contained(parts.agent) : agentServices.agent
  const stored = new StoredStates(store, writer, options.stateCharacters, agent.graphs)
  const states: StatePort = agent.states ?? agent.statesOver?.(stored) ?? stored
  const runStates = runStatesOf(agent, states, store, options)
  const registry = new Registry({
    store,
    states: runStates,
    committer,
    agent,
    options,
    log,
    changes: new WorkspaceChanges(paths)
  })

  const removeFiles = async (threadId: string, owner: string | null): Promise<boolean> => {
    await agentServices.forget(threadId, owner)
    return owner === null ? paths.removeSharedThread(threadId) : paths.removeThread(threadId, owner)
  }
  const endRevoked = (revocation: Revocation): void => {
    if ('userId' in revocation) departed.lookNow()
    endStreams(registry, revocation)
  }
  const onRevoked = (revocation: Revocation): void => {
    endRevoked(revocation)
    cluster?.revoked(revocation)
  }
  const { accounts, audit, credentials, setupLink } = await composeAccounts({
    ...{ config, log, store, writer, limits, paths, innerCalls, onRevoked }
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
        identity: await identityOf(config, accounts.tokens.fingerprint),
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
  const documents = new Documents({
    onFailed: ({ name, size }, reason) =>
      log.warn({ extension: extname(name), size, reason }, 'an uploaded document has no text beside it')
  })
  const { app } = agentServices
  const later = { config, log, store, writer, registry, states, innerCalls, app, services: () => services }
  const webhooks = composeWebhooks(later)
  const removals = composeRemovals(later)
  const webPush = composeWebPush(later, committer, (grant) => credentials.isValid(grant))
  const writeAll = unlessChanged(committer)
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
    assistants: new Assistants({ store: store.assistants, personas, states, access }),
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
    access,
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
    read: parts.readConfig ?? null,
    parts: [
      ...agentServices.reloadables,
      databaseAccess(store, config),
      ...whatReloads({ log, quota: registry.streams.quota, http: () => http })
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
    webPush,
    removals,
    isGone: (caller) => innerCalls.isGone(caller),
    audit,
    people: accounts.people,
    ownUrl: () => url,
    forgetUser: (userId) => {
      onRevoked({ userId })
      agentServices.forgetUser(userId)
      return paths.removeUser(userId)
    }
  })
  const indexer = new SearchIndexer({ store, write: (ops) => writeOrRefused(committer, ops), log })
  observers.push(jobs, indexer, webPush)
  const http = composeServers({
    ...{ config, log, services, accounts: { ...accounts, webPush }, credentials, policy, app, project },
    threadOwner: (threadId) => store.threads.ownerOf(threadId),
    metrics,
    notYet: readiness.notYet
  })
  const { server, metricsServer } = http
  const kept = { frameHours: config.streams.retention_hours, days: daysKept(config.retention) }
  const sweeper = new Sweeper(committer, kept, (error) => log.warn({ err: error }, 'what is old could not be deleted'))

  const departed = departedUsers({ config, log, registry, innerCalls })

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
    ...(accounts.sso ? [accounts.sso] : []),
    indexer,
    blocks,
    admission // the first to stop: no new runs
  ]
  for (const component of order) await components.start(component)

  await welcome({ config, log, users: store.users, setupLink, url })
  log.info({ url, took_ms: Math.round(performance.now() - began) }, 'listening')
  let stopped: Promise<void> | null = null
  const stop = async () => {
    const since = performance.now()
    const { drain_ms } = config.server
    readiness.leave()
    if (drain_ms > 0) log.info({ drain_ms }, 'leaving: load balancers are to send nothing more')
    if (drain_ms > 0) await pause(drain_ms)
    log.info({ runs: registry.phases(), streams: registry.streams.size }, 'stopping: new runs are refused')
    await components.stop()
    log.info({ took_ms: Math.round(performance.now() - since), cut }, 'stopped')
  }
  return {
    url,
    store,
    sizes: () => ({ ...registry.sizes(), unwritten: committer.size }),
    reload: (by = SYSTEM) => reload.everywhere(by),
    stop: () => (stopped ??= stop())
  }
}
