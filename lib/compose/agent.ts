// Assembles the agent: models, tools, tool servers, middlewares, memory and skills. The part of gateway.ts that knows
// what an agent consists of.
import { ofHeap } from '../base/budget.ts'
import { demoModels } from '../agent/demo.ts'
import { createAgent } from '../agent/lead.ts'
import { Egress } from '../agent/mcp/egress.ts'
import { ToolServers } from '../agent/mcp/tool-servers.ts'
import { imagesMiddleware, threadDataMiddleware, uploadsMiddleware } from '../agent/middleware/uploads.ts'
import { memoryMiddleware, type MemoryPort } from '../agent/middleware/memory.ts'
import type { Middleware } from '../agent/middleware.ts'
import { skillsMiddleware, skillTools } from '../agent/middleware/skills.ts'
import { goalMiddleware } from '../agent/middleware/goal.ts'
import { summarizeMiddleware } from '../agent/middleware/summarize.ts'
import { titleMiddleware } from '../agent/middleware/title.ts'
import type { Models } from '../agent/model.ts'
import { chatModels } from '../agent/http/chat-model.ts'
import type { AccessRules } from '../langgraph/project/access-policy.ts'
import { loadFront } from '../langgraph/project/front.ts'
import { type ProjectSettings, watchGraphs } from '../langgraph/project/config-file.ts'
import { registerSdkLogger } from '../langgraph/project/sdk-logger.ts'
import type { GraphPorts } from '../langgraph/project/graph-ports.ts'
import { ProjectAgent, type ProjectOptions } from '../langgraph/project/project-agent.ts'
import { createServerAgent } from '../langgraph/server-agent/agent.ts'
import { buildUi, type UiFiles } from '../langgraph/project/ui-files.ts'
import type { AgentObserver, Reporting } from '../agent/observer.ts'
import type { Agent, ModelInfo } from '../agent/runtime.ts'
import type { Personas } from '../thread/personas.ts'
import { builtInTools, setupAgentTool } from '../agent/tools.ts'
import type { Config } from '../config/config.ts'
import type { GroupAccess } from '../auth/group-access.ts'
import { toolServerSeal } from '../auth/seal.ts'
import { Extensions } from '../files/extensions.ts'
import type { Paths } from '../files/paths.ts'
import { Workspace } from '../files/workspace.ts'
import { authUser } from '../auth/asserted.ts'
import { CustomApp, type FetchApp } from '../langgraph/project/custom-app.ts'
import type { Log } from '../http/server.ts'
import { type Door, registerLoopback } from '../base/loopback.ts'
import type { Items } from '../memory/items.ts'
import { Memories } from '../memory/memories.ts'
import { MemoryQueue, type MemoryQueueOptions } from '../memory/queue.ts'
import { memoryPrompt } from '../memory/memory.ts'
import { commandPolicy, storedServers } from '../routes/mcp.ts'
import type { Services } from '../routes/services.ts'
import { newestRuns } from '../thread/newest-runs.ts'
import { WriteRefused } from '../run/commit/outage.ts'
import type { Committer } from '../run/commit/committer.ts'
import { DEFAULT_USER_ID } from '../base/scope.ts'
import { Skills } from '../skills/skills.ts'
import type { Store } from '../store/store.ts'
import { loadAgent } from './agent-module.ts'
import { Questions } from './questions.ts'
import type { Reloadable } from './reload.ts'
import { objectOr } from '../base/json.ts'
import { timestamp } from '../base/types.ts'

interface AgentServices {
  readonly agent: Agent
  /** The operator's own auth rules; null: none. */
  readonly rules: AccessRules | null
  /** The operator's own routes; null: none. */
  readonly app: CustomApp | null
  readonly services: Pick<Services, 'memories' | 'skills' | 'extensions' | 'toolServers' | 'ask' | 'ui'>
  /**
   * Connects to the configured tool servers in the background.
   * @throws Error when their file cannot be read
   */
  start(): Promise<void>
  /** Drops a deleted thread from the user's memory and its queue. */
  forget(threadId: string, userId: string | null): Promise<void>
  /** Drops what somebody has said who is gone, before it is remembered. */
  forgetUser(userId: string): void
  /** Models and tool servers. */
  readonly reloadables: readonly Reloadable[]
  /** Those of the configuration; null: it has none. */
  models(): readonly ModelInfo[] | null
  /** Flushes the memory queue, briefly, and stops tool servers. */
  stop(): Promise<void>
}

interface AgentServicesParts {
  readonly config: Config
  readonly paths: Paths
  readonly log: Log
  /** The owner for ownerless data [Auth 12]; null: there is no administrator yet. */
  readonly adminId: () => Promise<string | null>
  /** The store, as in-process graphs use it. */
  readonly graphs: GraphPorts
  readonly personas: Personas
  readonly access: GroupAccess
  /** Settings of langgraph.json besides its graphs; null: there is no such file. */
  readonly project: ProjectSettings | null
  readonly observer?: AgentObserver
  /** Other processes have the same home, and may change its files. */
  readonly hasPeers: boolean
}

/** Timeout for flushing the memory queue at shutdown, in ms. */
const MEMORY_FLUSH_MS = 5000

/** @throws Error when the configured agent cannot be loaded */
export async function composeAgent({
  config,
  paths,
  log,
  observer,
  adminId,
  graphs,
  personas,
  access,
  project,
  hasPeers
}: AgentServicesParts): Promise<AgentServices> {
  const reporting: Reporting = { log, observer }
  const workspace = new Workspace(paths)
  const models = config.models.length === 0 ? demoModels() : configuredModels(config, log)
  const questions = new Questions({ models, access, reporting })
  const memories = new Memories(paths, {
    storagePath: config.memory.storage_path,
    onDamaged: (path) => log.error({ path }, 'a memory file could not be read and was set aside as .damaged')
  })
  const queue = new MemoryQueue(memories, memoryOptions(config, questions, log))
  const extensions = new Extensions(config.home, toolServerSeal(config.mcp.secrets_key))
  const skills = new Skills({
    home: config.home,
    publicPath: config.skills.path,
    extensions,
    onBroken: (path, error) => log.warn({ path, err: error }, 'a skill cannot be used')
  })
  const toolServersOf = async (of: Config) => storedServers(await extensions.read(), commandPolicy(of), log)
  /** The file that was read last. */
  let seen = ''
  const changedServers = async () => {
    const stamp = await extensions.stamp()
    if (stamp === seen) return null
    const servers = await toolServersOf(config)
    seen = stamp
    return servers
  }
  const toolServers = new ToolServers({
    egress: new Egress(config.mcp.allowed_networks),
    connectTimeoutMs: config.mcp.connect_timeout_ms,
    callTimeoutMs: config.mcp.call_timeout_ms,
    log,
    ...(hasPeers && { changed: changedServers })
  })
  const lead = () =>
    createAgent({
      ...reporting,
      models,
      tools: builtInTools({ files: workspace }),
      toolSources: [...(config.skills.enabled ? [skillTools(skills)] : []), setupAgentTool(personas), toolServers],
      // The demo model cannot write titles or memories.
      middlewares: [
        threadDataMiddleware,
        ...(config.models.length === 0 ? [] : middlewaresOf(config, { memories, queue, skills, workspace, log }))
      ]
    })
  registerSdkLogger(log)
  registerLoopback(graphs.door)
  const place = config.agent.config ?? ''
  const own = config.agent.runtime === 'graphs' ? await ProjectAgent.load(place, graphs, projectOptions(config)) : null
  const front = await loadFront(place, project, graphs, projectOptions(config))
  const app = project && front.app && customApp(front.app, project, config)
  for (const what of project?.unsupported ?? [])
    log.warn({ what }, 'langgraph.json has a setting that is not supported')
  const ui = project && Object.keys(project.ui).length > 0 ? uiOf(place, project, log) : null
  const agent = own?.agent ?? (await agentOf(config, lead, graphs))
  let unwatch = () => {}
  const stop = new AbortController()
  return {
    agent,
    rules: front.rules,
    app,
    models: () => (config.models.length === 0 ? null : models.all.map(({ info }) => info)),
    services: { memories, skills, extensions, toolServers, ask: questions.ask, ui: ui && (() => ui) },
    start: async () => {
      if (own && config.agent.watch) unwatch = watchGraphs(place, () => front.reload().then(() => own.reload()), log)
      // In the background: the agent's server may be slow, or down. Its graphs are known by when somebody names one.
      agent.graphs?.graphs()
      adopt(agent, adminId, log, stop.signal).catch((error: unknown) =>
        log.warn({ err: error }, 'assistants could not be adopted')
      )
      await extensions.protect()
      toolServers.configure((await changedServers()) ?? {})
    },
    forget: async (threadId, userId) => {
      queue.forget(threadId)
      void agent
        .forget?.(threadId)
        .catch((error: unknown) =>
          log.warn({ err: error, thread_id: threadId }, 'the agent could not delete its part of a deleted thread')
        )
      if (userId !== null) await memories.forgetThread(userId, threadId)
    },
    forgetUser: (userId) => queue.forgetUser(userId),
    reloadables: [
      {
        options: ['models'],
        prepare: (next) => {
          // From or to the demo's model takes a restart.
          if (next.models.length === 0 || config.models.length === 0) return null
          const { all } = configuredModels(next, log)
          return () => models.replace(all)
        }
      },
      {
        options: ['mcp.stdio_commands', 'mcp.env_allowed'],
        prepare: async (next) => {
          const servers = await toolServersOf(next)
          // They stand in a file of their own.
          return () => (toolServers.configure(servers) ? ['tool_servers'] : [])
        }
      }
    ],
    stop: async () => {
      stop.abort()
      unwatch()
      await Promise.all([queue.flush(MEMORY_FLUSH_MS), toolServers.close(), own?.close(), front.close()])
    }
  }
}

function projectOptions({ agent, graphs }: Config): ProjectOptions {
  const { python, python_blocked_ms: blockedMs, python_memory_mb: memoryMb, watch } = agent
  return { python, blockedMs, memoryMb, isIsolated: graphs.isolation === 'worker' || watch }
}

function customApp(app: FetchApp, { http }: ProjectSettings, { server, streams }: Config): CustomApp {
  const limits = { bodyLimit: server.body_bytes, stallMs: streams.stall_ms }
  return new CustomApp(app, { needsUser: http.appNeedsUser, ...limits, userOf: authUser })
}

/** In the background; empty if they cannot be bundled, which is logged. */
async function uiOf(place: string, project: ProjectSettings, log: Log): Promise<UiFiles> {
  try {
    return await buildUi(place, project)
  } catch (error) {
    log.warn({ err: error }, 'the components of langgraph.json (ui) are not served')
    return new Map()
  }
}

/** Gives ownerless threads of the agent's server to the administrator [Auth 12]. */
async function adopt(
  agent: Agent,
  adminId: () => Promise<string | null>,
  log: Log,
  signal: AbortSignal
): Promise<void> {
  if (!agent.adoptThreads) return
  try {
    const owner = await adminId()
    if (owner === null) return
    const threads = await agent.adoptThreads(owner, signal, (thread_id, error) =>
      log.warn({ thread_id, err: error }, "a thread of the agent's server could not be given an owner")
    )
    if (threads > 0)
      log.info({ threads, user_id: owner }, "ownerless threads of the agent's server now belong to the administrator")
  } catch (error) {
    if (!signal.aborted)
      log.warn({ err: error }, "the threads of the agent's server could not be searched for those without an owner")
  }
}

async function agentOf({ agent }: Config, lead: () => Agent, ports: GraphPorts): Promise<Agent> {
  // The configuration has checked that each runtime has what it needs.
  if (agent.runtime === 'module') return loadAgent(agent.path ?? '', ports)
  if (agent.runtime !== 'langgraph') return lead()
  const { url, api_key, headers, assistant_id, idle_timeout_ms, reconnect_ms, rejoin: rejoins } = agent
  const times = { idleTimeoutMs: idle_timeout_ms, reconnectMs: reconnect_ms }
  const options = { apiKey: api_key, headers, assistantId: assistant_id, ...times }
  return createServerAgent({ url: url ?? '', ...options, ...answerLimits(agent), rejoins })
}

function configuredModels(config: Config, log: Log): Models {
  // A server without a key accepts any.
  return chatModels(
    config.models.map((model) => ({ ...model, api_key: model.api_key ?? '' })),
    log,
    answerLimits(config.agent)
  )
}

/** The part of the heap that one event may be at most, and one answer: while an answer is folded, stored and shown it is there many times. */
const HEAP_PARTS = { event: 64, answer: 48 }

function answerLimits({ event_characters, answer_characters, answer_calls }: Config['agent']) {
  return {
    eventCharacters: ofHeap(event_characters, HEAP_PARTS.event),
    characters: ofHeap(answer_characters, HEAP_PARTS.answer),
    calls: answer_calls
  }
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
    prompt: async (of) =>
      memory.injection_enabled ? memoryPrompt(await memories.read(of), memory.max_injection_tokens) : null,
    learn: (conversation) => queue.add(conversation)
  }
  return [
    goalMiddleware(),
    uploadsMiddleware(workspace, DEFAULT_USER_ID),
    imagesMiddleware(workspace, DEFAULT_USER_ID),
    ...(config.skills.enabled ? [skillsMiddleware(skills)] : []),
    ...(memory.enabled ? [memoryMiddleware(port, log)] : []),
    ...(summarization.enabled ? [summarizeMiddleware(summarization)] : []),
    ...(title.enabled ? [titleMiddleware(title)] : [])
  ]
}

function memoryOptions({ memory }: Config, questions: Questions, log: Log): MemoryQueueOptions {
  return {
    debounceMs: memory.debounce_seconds * 1000,
    maxFacts: memory.max_facts,
    threshold: memory.fact_confidence_threshold,
    ask: (userId, { system, user }, signal) => {
      const messages = [
        { role: 'system', content: system },
        { role: 'user', content: user }
      ]
      return questions.askFor(userId, { messages, chosen: memory.model_name }, signal)
    },
    onFailed: (error, thread_id) => log.warn({ err: error, thread_id }, 'a conversation could not be read for memory')
  }
}

/** The store, as in-process graphs use it: their states, and their threads. */
export function graphPorts(store: Store, committer: Committer, items: Items, door: Door, log: Log): GraphPorts {
  const newestOf = async (threadId: string) => (await newestRuns(1, (page) => store.runs.list(threadId, page, null)))[0]
  return {
    items,
    door,
    log,
    reads: store.graphStates,
    threads: {
      graphOf: async (threadId) => {
        const thread = await store.threads.get(threadId, null)
        if (!thread) return null
        const newest = await newestOf(threadId)
        // Metadata is what a client says; the state is that of the graph that has run.
        const id = newest?.kwargs.graph_id ?? thread.metadata.graph_id
        return typeof id === 'string' ? id : null
      },
      configOf: async (threadId) => {
        const newest = await newestOf(threadId)
        return { config: objectOr(newest?.kwargs.config), context: objectOr(newest?.kwargs.context) }
      },
      isBusy: async (threadId) => (await store.runs.inFlight(threadId)).length > 0,
      copy: async (from, thread_id) => void (await committer.write({ name: 'state.copy', from, thread_id })),
      update: async (update) => {
        try {
          return await committer.write({ name: 'graph.update', now: timestamp(), ...update }, 'limited')
        } catch (error) {
          if (error instanceof WriteRefused) return 'busy'
          throw error
        }
      }
    }
  }
}
