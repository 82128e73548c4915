// The whole API, one file per line. Each file is a table of method, path, access, schemas and handler.
import type { AccessPolicy } from '../auth/policy.ts'
import type { Route } from '../http/route.ts'
import { apiTokenRoutes } from './api-tokens.ts'
import { artifactRoutes } from './artifacts.ts'
import { assistantRoutes } from './assistants.ts'
import { withPolicy } from './authorization.ts'
import { type AuthServices, authRoutes } from './auth.ts'
import { consoleRoutes } from './console.ts'
import { cronRoutes } from './crons.ts'
import { feedbackRoutes } from './feedback.ts'
import { featureRoutes } from './features.ts'
import { frameRoutes } from './frames.ts'
import { healthRoutes } from './health.ts'
import { itemRoutes } from './items.ts'
import { invitationRoutes } from './invitations.ts'
import { jobRoutes } from './jobs.ts'
import { mcpRoutes } from './mcp.ts'
import { memoryRoutes } from './memory.ts'
import { messageRoutes } from './messages.ts'
import { adminMetricsRoutes } from './metrics.ts'
import { modelRoutes } from './features.ts'
import { withOpenApi } from './openapi.ts'
import { protocolRoutes } from './protocol.ts'
import { runRoutes } from './runs.ts'
import type { Services } from './services.ts'
import { skillRoutes } from './skills.ts'
import { stateRoutes } from './state.ts'
import { suggestionRoutes } from './suggestions.ts'
import { liveStreamRoutes } from './live-stream.ts'
import { threadStreamRoutes } from './thread-stream.ts'
import { threadRoutes } from './threads.ts'
import { uiRoutes } from './ui.ts'
import { uploadRoutes } from './uploads.ts'

/** Settings of the operator's project (langgraph.json). */
interface TableRules {
  /** Parts that are not served. */
  readonly disabled?: readonly string[]
  /** Asked before a user's action. */
  readonly policy?: AccessPolicy | null
}

export function routes(services: Services, auth: AuthServices, { disabled = [], policy }: TableRules = {}): Route[] {
  const all = [
    ...consoleRoutes(services), //  / /docs /colloquy.js /console/...
    ...healthRoutes(services), //   /health /readyz /ok /info
    ...adminMetricsRoutes(services), //  /metrics
    ...authRoutes(auth), //         /api/v1/auth/...
    ...apiTokenRoutes(auth), //     /api/v1/auth/tokens
    ...invitationRoutes(auth), //   /api/v1/auth/invitations
    ...jobRoutes(services), //  /api/v1/admin/jobs
    ...assistantRoutes(services), // /api/assistants
    ...threadRoutes(services), //   /api/threads
    ...stateRoutes(services), //    /api/threads/{thread_id}/state, /history
    ...runRoutes(services), //      /api/threads/{thread_id}/runs, /api/runs
    ...liveStreamRoutes(services), // /api/stream
    ...threadStreamRoutes(services), // /api/threads/{thread_id}/stream
    ...protocolRoutes(services), //  /api/threads/{thread_id}/commands, /stream/events
    ...frameRoutes(services), //    .../runs/{run_id}/frames/{n}
    ...messageRoutes(services), //  .../messages, .../events, .../token-usage
    ...feedbackRoutes(services), // .../feedback
    ...uploadRoutes(services), //   .../uploads
    ...artifactRoutes(services), // .../artifacts/{path}
    ...suggestionRoutes(services), // .../suggestions
    ...modelRoutes(services), //    /api/models
    ...mcpRoutes(services), //      /api/mcp
    ...memoryRoutes(services), //   /api/memory
    ...skillRoutes(services), //    /api/skills
    ...cronRoutes(services), //     /api/runs/crons
    ...itemRoutes(services), //     /api/store/items, /api/store/namespaces
    ...uiRoutes(services), //       /api/ui
    ...featureRoutes() //           /api/features
  ]
  const served = all.filter(({ part }) => !disabled.includes(part))
  return withOpenApi(withPolicy(served, policy ?? null, services))
}
