// Assembles the HTTP servers of a configuration, from the tables of their routes to the addresses on which they listen.
import type { ProjectSettings } from '../langgraph/project/config-file.ts'
import type { AccessPolicy } from '../langgraph/project/access-policy.ts'
import type { Credentials } from '../auth/credentials.ts'
import type { Config } from '../config/config.ts'
import { Failure, fail, codeOf } from '../base/errors.ts'
import { Proxies } from '../http/address.ts'
import { Allowance } from '../http/admission.ts'
import { targetOf } from '../http/request.ts'
import type { ProjectApp, Route } from '../http/route.ts'
import { Origins, type RequestCounting } from '../http/entry.ts'
import { type HttpOptions, HttpServer, type Log } from '../http/server.ts'
import type { Principal } from '../base/accounts.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { AuthServices, Services } from '../routes/services.ts'
import { dialectOf } from '../langgraph/api/dialect.ts'
import { routes } from '../routes/index.ts'
import { metricsRoutes } from '../routes/health.ts'
import type { UserLimits } from '../thread/user-limits.ts'
import type { Accounts } from './accounts.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { deerflowRoutes } from '../deerflow/index.ts'
import { agUiRoutes } from '../protocols/ag-ui/index.ts'
import { copilotKitRoutes } from '../protocols/copilotkit/index.ts'
import { aiSdkRoutes } from '../protocols/ai-sdk/index.ts'
import { langgraphRoutes } from '../langgraph/api/index.ts'
import { a2aRoutes } from '../protocols/a2a/index.ts'
import { mcpRoutes } from '../protocols/mcp/index.ts'
import { openaiRoutes } from '../protocols/openai/index.ts'
import { Operations } from '../operator/operations.ts'
import { operationRoutes } from '../routes/operations.ts'

interface HttpParts {
  readonly config: Config
  readonly log: Log
  readonly services: Services
  readonly accounts: Accounts & Pick<AuthServices, 'webPush'>
  readonly credentials: Credentials
  /** The operator's own auth rules; null: none. */
  readonly policy: AccessPolicy | null
  /** The operator's own routes; null: none. */
  readonly app: ProjectApp | null
  readonly project: ProjectSettings | null
  readonly threadOwner: Store['threads']['ownerOf']
  readonly metrics: Metrics
  readonly notYet: HttpOptions['notYet']
}

const SECOND_MS = 1000

interface RequestCounter extends RequestCounting {
  /** Quotas were reloaded. Asked then, and not for each request. */
  onReload(): void
}

/** Refuses what is more than a user's quota lets him send, and of a token that acts for him its account. */
function requestCounter(limits: Pick<UserLimits, 'hasQuotas' | 'requestsOf' | 'requestsOfId'>): RequestCounter {
  const rates = new Allowance()
  const count = (userId: string, max: number): void => {
    if (max > 0 && rates.ask(userId, { atOnce: max, refillMs: SECOND_MS / max }) > 0)
      throw fail('too_many_requests', { max }, { 'Retry-After': '1' })
  }
  const counter = {
    countsAll: limits.hasQuotas,
    onReload() {
      counter.countsAll = limits.hasQuotas
    },
    count({ user, grant: { actor } }: Principal) {
      count(user.id, limits.requestsOf(user))
      return actor === undefined ? undefined : limits.requestsOfId(actor).then((max) => count(actor, max))
    }
  }
  return counter
}

interface Servers {
  readonly server: HttpServer
  /** null: metrics have no port of their own. */
  readonly metricsServer: HttpServer | null
  readonly proxies: Proxies
  readonly requests: RequestCounter
}

export function composeServers(parts: HttpParts): Servers {
  const { config, log, services, policy, project, metrics } = parts
  const warn = (message: string) => log.warn({}, message)
  const proxies = new Proxies(config.server.trusted_proxies, warn, config.server.trusted_hops)
  const requests = requestCounter(services.limits)
  const common: Omit<HttpOptions, 'routes'> = {
    authenticate: parts.credentials.authenticate,
    authenticateRequest: policy?.authenticates ? policy.authenticate : null,
    threadOwner: parts.threadOwner,
    origins: new Origins([...config.server.cors_origins, ...(project?.http.origins ?? [])], warn),
    proxies,
    publicUrl: config.server.public_url,
    limits: { connectionsPerAddress: config.server.connections_per_address },
    log,
    requests,
    failureOf: unreachable,
    notYet: parts.notYet
  }
  const accounts: AuthServices = {
    ...parts.accounts,
    config,
    writer: services.writer,
    log,
    audit: services.audit,
    allowanceOf: (call) => proxies.allowanceOf(call.req),
    onLoginRefused: (code) => metrics.loginRefused(code)
  }
  const server = new HttpServer({
    ...common,
    onAnswered: config.log.access ? accessLog(parts, proxies) : metrics.request,
    app: parts.app,
    dialectOf,
    routes: routes(services, accounts, {
      disabled: project?.http.disabled ?? [],
      policy,
      rooms: roomRoutes(services)
    })
  })
  const hasOwnPort = config.metrics.port !== 0
  const metricsServer = hasOwnPort ? new HttpServer({ ...common, routes: metricsRoutes(services) }) : null
  return { server, metricsServer, proxies, requests }
}

/** A line for every response, beside its metrics. The query is left out: it may have what is nobody's. */
function accessLog({ log, metrics }: HttpParts, proxies: Proxies): NonNullable<HttpOptions['onAnswered']> {
  return (route, method, status, ms, { req, userId }) => {
    metrics.request(route, method, status, ms)
    const { path } = targetOf(req)
    const took_ms = Math.round(ms)
    log.info({ method, path, route, status, took_ms, address: proxies.addressOf(req), user_id: userId }, 'answered')
  }
}

/** A database that does not answer a read is not the request's fault, and a retry may work. */
function unreachable(error: unknown): Failure | null {
  if (!(error instanceof StoreUnavailable)) return null
  return new Failure('store_unreachable', { reason: error.message }, { 'Retry-After': '5' })
}

/** The tables of all rooms that know routes/: those of other APIs and protocols, and what the command line does. */
export function roomRoutes(services: Services): Route[] {
  return [
    ...langgraphRoutes(services), // /api/assistants, /api/store, ...
    ...aiSdkRoutes(services), // /api/ai/chat
    ...agUiRoutes(services), // /api/agui
    ...copilotKitRoutes(services), // /api/copilotkit
    ...deerflowRoutes(services), // what is behind the buttons of its frontend
    ...a2aRoutes(services), // /a2a, /.well-known/agent-card.json
    ...mcpRoutes(services), // /mcp
    ...openaiRoutes(services), // /v1
    ...operationRoutes(new Operations(services.config)) // /api/v1/admin/doctor, config, migration, prune, backup
  ]
}

const PROBLEMS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there, take another port or end it',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'there is no such name',
  EAI_AGAIN: 'the name cannot be looked up',
  EACCES: 'ports below 1024 need more rights'
}

/**
 * Starts a server; returns its URL. `section`: where the configuration has the address.
 * @throws Error that names the address and its options
 */
export async function listen(
  server: HttpServer,
  section: string,
  { host, port }: { readonly host: string; readonly port: number }
): Promise<string> {
  try {
    return (await server.listen(port, host)).url
  } catch (error) {
    const code = codeOf(error) ?? String(error)
    const problem = PROBLEMS[code] ?? 'it cannot be listened on'
    const options = `${section}.host, ${section}.port`
    throw new Error(`The address ${host}:${port} (${options}) cannot be used: ${problem} (${code})`, { cause: error })
  }
}
