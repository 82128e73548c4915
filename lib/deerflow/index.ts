// The routes behind the buttons of DeerFlow's frontend, which no other client has: one file a button.
import type { Route } from '../http/route.ts'
import type { Services } from '../routes/services.ts'
import { agentRoutes } from './agents.ts'
import { branchRoutes } from './branches.ts'
import { compactRoutes } from './compact.ts'
import { goalRoutes } from './goal.ts'
import { polishRoutes } from './polish.ts'
import { replayRoutes } from './replay.ts'
import { scheduledTaskRoutes } from './scheduled-tasks.ts'
import { workspaceChangeRoutes } from './workspace-changes.ts'

export function deerflowRoutes(services: Services): Route[] {
  return [
    ...replayRoutes(services), // /api/threads/{thread_id}/runs/regenerate/prepare, .../edit-regenerate/prepare
    ...branchRoutes(services), // /api/threads/{thread_id}/branches
    ...goalRoutes(services), // /api/threads/{thread_id}/goal
    ...compactRoutes(services), // /api/threads/{thread_id}/compact
    ...polishRoutes(services), // /api/input-polish
    ...agentRoutes(services), // /api/agents
    ...scheduledTaskRoutes(services), // /api/scheduled-tasks
    ...workspaceChangeRoutes(services) // /api/threads/{thread_id}/runs/{run_id}/workspace-changes
  ]
}
