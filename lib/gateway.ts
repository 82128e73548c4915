// Composition: configuration -> store -> committer -> registry -> routes -> server. Starting and stopping are in this one place,
// and stopping releases what starting acquired, in reverse order.
import type { Agent } from './agent/runtime.ts'
import { askAside } from './agent/ask.ts'
import { demoModels } from './agent/demo.ts'
import { createAgent } from './agent/lead.ts'
import { Egress } from './agent/mcp/egress.ts'
import { ToolServers } from './agent/mcp/tool-servers.ts'
import { type MemoryPort, memoryMiddleware } from './agent/middleware/memory.ts'
import type { Middleware } from './agent/middleware/middleware.ts'
import { skillsMiddleware, skillTools } from './agent/middleware/skills.ts'
import { summarizeMiddleware } from './agent/middleware/summarize.ts'
import { titleMiddleware } from './agent/middleware/title.ts'
import { uploadsMiddleware } from './agent/middleware/uploads.ts'
import { chatModels, type Models } from './agent/models.ts'
import { builtInTools } from './agent/tools.ts'
import { type Reset, resetAdmin } from './auth/admin.ts'
import { Sessions } from './auth/session.ts'
import { digestOf, openTokens } from './auth/token.ts'
import type { Config } from './config.ts'
import { fail } from './errors.ts'
import { Extensions } from './files/extensions.ts'
import { lockHome } from './files/lock.ts'
import { Artifacts } from './files/artifacts.ts'
import { Paths } from './files/paths.ts'
import { Uploads } from './files/uploads.ts'
import { Workspace } from './files/workspace.ts'
import { Proxies } from './http/address.ts'
import { Origins } from './http/guards.ts'
import { createHttpServer, type Log } from './http/server.ts'
import { Memories } from './memory/memories.ts'
import { MemoryQueue, type MemoryQueueOptions } from './memory/queue.ts'
import { recall } from './memory/recall.ts'
import { routes } from './routes/index.ts'
import { storedServers } from './routes/mcp.ts'
import type { Services } from './routes/services.ts'
import { Committer, WriteRefused } from './run/committer.ts'
import type { JournalOptions } from './run/journal.ts'
import { recover } from './run/recovery.ts'
import { Registry, type RegistryOptions } from './run/registry.ts'
import { Sweeper } from './run/sweeper.ts'
import { DEFAULT_USER_ID } from './scope.ts'
import { Skills } from './skills/skills.ts'
import { openStore } from './store/open.ts'
import type { Store, Writer } from './store/store.ts'

export interface Gateway {
  /** `http://host:port` under which it answers. */
  readonly url: string
  readonly store: Store
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
/** For conversations that wait to be read for memory when the process ends, in ms. */
const MEMORY_FLUSH_MS = 5000

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
  const unlock = lockHome(config.home)
  const store =
    givenStore ??
    (await openStore(config.database).catch((error: unknown) => {
      unlock()
      throw error
    }))
  if (config.database.backend === 'memory' && !givenStore)
    log.warn({}, 'database.backend is memory: nothing is kept over a restart')
  const committer = new Committer((groups) => store.apply(groups), {
    flushMs: config.streams.flush_ms,
    onTrouble: (error, attempts) =>
      log.error({ err: error, attempts }, 'the store does not take a batch; it is tried again')
  })
  const paths = new Paths(config.home)
  const workspace = new Workspace(paths)
  const models = config.models.length === 0 ? demoModels() : configuredModels(config, log)
  const aside: Services['aside'] = async (messages, modelName, signal) => {
    const model = models.named(modelName)
    if (!model) throw new Error(`There is no model "${modelName}"`)
    return askAside(model, messages, signal)
  }
  const memories = new Memories(paths, {
    storagePath: config.memory.storage_path,
    onDamaged: (path) => log.error({ path }, 'a memory file could not be read and was set aside as .damaged')
  })
  const memoryQueue = new MemoryQueue(memories, memoryOptions(config, aside, log))
  const extensions = new Extensions(config.home)
  const skills = new Skills({
    home: config.home,
    publicPath: config.skills.path,
    extensions,
    onBroken: (path, error) => log.warn({ path, err: error }, 'a folder of skills holds one that cannot be used')
  })
  const toolServers = new ToolServers({
    egress: new Egress(config.mcp.allowed_networks),
    connectTimeoutMs: config.mcp.connect_timeout_ms,
    callTimeoutMs: config.mcp.call_timeout_ms,
    log
  })
  const agent =
    givenAgent ??
    createAgent({
      models,
      tools: builtInTools({ files: workspace }),
      toolSources: [...(config.skills.enabled ? [skillTools(skills)] : []), toolServers],
      // The demo model has nothing to say about titles and memories.
      middlewares:
        config.models.length === 0
          ? []
          : middlewaresOf(config, { memories, queue: memoryQueue, skills, workspace, log })
    })
  const registry = new Registry({ store, committer, agent, options: registryOptions(config), log })
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
  const sessions = new Sessions({ users: store.users, tokens })
  sessions.onRevoke(({ credential, userId }) =>
    registry.resetStreams(
      (reader) =>
        (credential !== undefined && reader.credential === credential) ||
        (userId !== undefined && reader.userId === userId)
    )
  )

  const notReady = () => {
    if (registry.refusal === 'stopping') return 'the server is shutting down'
    if (registry.refusal === 'store_stuck') return 'the database does not take writes'
    return null
  }
  const services: Services = {
    config,
    store,
    writer,
    registry,
    agent,
    uploads: new Uploads(paths, config.uploads),
    artifacts: new Artifacts(paths),
    paths,
    memories,
    skills,
    extensions,
    toolServers,
    aside,
    log,
    digest: digestOf,
    notReady,
    removeFiles: (threadId, userId) => {
      memoryQueue.forget(threadId)
      return paths.removeThread(threadId, userId ?? undefined)
    }
  }
  const server = createHttpServer({
    routes: routes(services, {
      config,
      users: store.users,
      writer,
      sessions,
      tokens,
      log,
      countable: (call) => !proxies.isFrontEnd(call.req)
    }),
    authenticate: (token) => sessions.authenticate(token),
    threadOwner: (threadId) => store.threads.ownerOf(threadId),
    origins: new Origins(config.server.cors_origins, (message) => log.warn({}, message)),
    proxies,
    publicUrl: config.server.public_url,
    log
  })

  const stopAll = async () => {
    registry.refuseNew()
    sweeper.stop()
    // Not before the grace is over: until then readiness says 503, and who loses its connection can come back.
    let closed = Promise.resolve()
    await registry.stop(config.server.shutdown_grace_ms, RESET_JITTER_MS, () => {
      closed = server.close(RESET_JITTER_MS)
    })
    await closed
    await Promise.all([memoryQueue.flush(MEMORY_FLUSH_MS), toolServers.close()])
    await committer.drained()
    committer.stop()
    if (!givenStore) await store.close()
    unlock()
  }
  let stopped: Promise<void> | null = null
  const stop = () => {
    stopped ??= stopAll()
    return stopped
  }

  try {
    const found = await recover({ store, writer: committer, registry, journal: journalOptions(config), log })
    if (found.ended || found.resumed) log.warn(found, 'runs of the process before this one were ended and resumed')
    if ((await store.users.admin()) === null)
      log.info({}, 'there is no administrator yet: POST /api/v1/auth/initialize makes one')
    sweeper.start()
    toolServers.configure(storedServers(await extensions.read(), config.mcp.stdio_commands, log))
    const { url } = await server.listen(config.server.port, config.server.host)
    return { url, store, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Gives an administrator a new password, left in a file of the home; for the command line.
 * @throws Error when there is no SQL database, or nobody to reset.
 */
export async function resetAdministrator(config: Config, email: string | null): Promise<Reset> {
  if (config.database.backend === 'memory') throw new Error('database.backend is memory: there is no account to reset')
  const store = await openStore(config.database)
  const committer = new Committer((groups) => store.apply(groups), { flushMs: 0 })
  try {
    return await resetAdmin({ users: store.users, writer: committer, home: config.home, email })
  } finally {
    committer.stop()
    await store.close()
  }
}

function configuredModels(config: Config, log: Log): Models {
  // A server without a key takes any.
  return chatModels(
    config.models.map((model) => ({ ...model, api_key: model.api_key ?? '' })),
    log
  )
}

interface MiddlewareParts {
  readonly memories: Memories
  readonly queue: MemoryQueue
  readonly skills: Skills
  readonly workspace: Workspace
  readonly log: Log
}

function middlewaresOf(config: Config, { memories, queue, skills, workspace, log }: MiddlewareParts): Middleware[] {
  const { title, summarization, memory } = config
  const port: MemoryPort = {
    recall: async (of) =>
      memory.injection_enabled ? recall(await memories.read(of), memory.max_injection_tokens) : null,
    learn: (conversation) => queue.add(conversation)
  }
  return [
    uploadsMiddleware(workspace, DEFAULT_USER_ID),
    ...(config.skills.enabled ? [skillsMiddleware(skills)] : []),
    ...(memory.enabled ? [memoryMiddleware(port, log)] : []),
    ...(summarization.enabled ? [summarizeMiddleware(summarization)] : []),
    ...(title.enabled ? [titleMiddleware(title)] : [])
  ]
}

function memoryOptions({ memory }: Config, aside: Services['aside'], log: Log): MemoryQueueOptions {
  return {
    debounceMs: memory.debounce_seconds * 1000,
    maxFacts: memory.max_facts,
    threshold: memory.fact_confidence_threshold,
    ask: ({ system, user }, signal) =>
      aside(
        [
          { role: 'system', content: system },
          { role: 'user', content: user }
        ],
        memory.model_name,
        signal
      ),
    onFailed: (error, thread_id) => log.warn({ err: error, thread_id }, 'a conversation could not be read for memory')
  }
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
    streams: { perUser: streams.per_user, total: streams.total },
    activePerUser: runs.active_per_user,
    windowBytes: streams.window_bytes,
    pendingBytes: streams.pending_bytes,
    settleTimeoutMs: streams.settle_timeout_ms,
    disconnectGraceMs: runs.disconnect_grace_ms,
    timeoutMs: runs.timeout_s * 1000,
    recursionLimit: runs.recursion_limit,
    title
  }
}

/** A request's write that the store refuses has met somebody else's: its thread is gone. That is a conflict, not a failure. */
function failingClearly(committer: Committer): Writer {
  return {
    async write(op) {
      try {
        return await committer.write(op)
      } catch (error) {
        if (error instanceof WriteRefused) throw fail('changed_meanwhile')
        throw error
      }
    }
  }
}
