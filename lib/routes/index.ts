// The API, one file per line. Each file is a table of method, path, access, schemas and handler. Tables of other rooms are handed in.
import type { Route } from '../http/route.ts'
import { apiTokenRoutes, invitationRoutes } from './api-tokens.ts'
import { auditRoutes } from './audit.ts'
import { usageRoutes } from './usage.ts'
import { artifactRoutes } from './artifacts.ts'
import { withRules } from './authorization.ts'
import type { AuthServices, AccessRules, Services } from './services.ts'
import { authRoutes } from './auth.ts'
import { consoleRoutes } from './console.ts'
import { feedbackRoutes } from './feedback.ts'
import { holdRoutes } from './holds.ts'
import { runInputRoutes } from './run-input.ts'
import { featureRoutes, modelRoutes } from './features.ts'
import { frameRoutes } from './frames.ts'
import { adminMetricsRoutes, healthRoutes } from './health.ts'
import { jobRoutes } from './jobs.ts'
import { mcpRoutes } from './mcp.ts'
import { memoryRoutes } from './memory.ts'
import { messageRoutes } from './messages.ts'
import { withOpenApi } from './openapi.ts'
import { peopleRoutes } from './people.ts'
import { webPushRoutes } from './web-push.ts'
import { reloadRoutes } from './reload.ts'
import { runRoutes } from './runs.ts'
import { searchRoutes } from './search.ts'
import { ssoRoutes } from './sso.ts'
import { skillRoutes } from './skills.ts'
import { stateRoutes } from './state.ts'
import { suggestionRoutes } from './suggestions.ts'
import { linkRoutes } from './links.ts'
import { liveStreamRoutes } from './live-stream.ts'
import { threadStreamRoutes } from './thread-stream.ts'
import { threadRoutes } from './threads.ts'
import { uploadRoutes } from './uploads.ts'

/** Settings of the operator's project (langgraph.json). */
interface TableRules {
  /** Parts that are not served. */
  readonly disabled?: readonly string[]
  /** Asked before a user's action. */
  readonly policy?: AccessRules | null
  /** Tables of other rooms, which know routes/. */
  readonly rooms?: readonly Route[]
}

export function routes(
  services: Services,
  auth: AuthServices,
  { disabled = [], policy, rooms = [] }: TableRules = {}
): Route[] {
  const all = [
    ...consoleRoutes(services), //  / /docs /colloquy.js /console/...
    ...healthRoutes(services), //   /health /readyz /ok /info
    ...adminMetricsRoutes(services), //  /metrics
    ...authRoutes(auth), //         /api/v1/auth/...
    ...ssoRoutes(auth), //          /api/v1/auth/providers, /oauth, /callback, /backchannel
    ...apiTokenRoutes(auth), //     /api/v1/auth/tokens
    ...invitationRoutes(auth), //   /api/v1/auth/invitations
    ...webPushRoutes(auth), //      /api/v1/auth/push
    ...linkRoutes(auth), //         /api/threads/{thread_id}/links
    ...peopleRoutes(auth), //       /api/v1/admin/users, /api/v1/auth/sessions
    ...holdRoutes(auth), //         /api/v1/admin/holds
    ...auditRoutes(services), //    /api/v1/admin/audit
    ...usageRoutes(services), //    /api/v1/admin/usage, /api/v1/auth/usage
    ...jobRoutes(services), //  /api/v1/admin/jobs
    ...reloadRoutes(services), // /api/v1/admin/reload
    ...searchRoutes(services), //   /api/v1/search
    ...threadRoutes(services), //   /api/threads
    ...stateRoutes(services), //    /api/threads/{thread_id}/state, /history
    ...runRoutes(services), //      /api/threads/{thread_id}/runs, /api/runs
    ...liveStreamRoutes(services), // /api/stream
    ...threadStreamRoutes(services), // /api/threads/{thread_id}/stream
    ...frameRoutes(services), //    .../runs/{run_id}/frames/{n}
    ...messageRoutes(services), //  .../messages, .../events, .../token-usage
    ...runInputRoutes(services), // .../input
    ...feedbackRoutes(services), // .../feedback
    ...uploadRoutes(services), //   .../uploads
    ...artifactRoutes(services), // .../artifacts/{path}
    ...suggestionRoutes(services), // .../suggestions
    ...modelRoutes(services), //    /api/models
    ...mcpRoutes(services), //      /api/mcp
    ...memoryRoutes(services), //   /api/memory
    ...skillRoutes(services), //    /api/skills
    ...featureRoutes(services), //   /api/features
    ...rooms
  ]
  const served = all.filter(({ part }) => !disabled.includes(part))
  return withOpenApi(withRules(served, policy ?? null, services))
}
