// Optional features, and empty answers of those that do not exist: front ends ask before they show a button, and would
// retry a 404.
import type { Reply } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'

const NO_CHANGES = {
  available: false,
  version: 1,
  summary: { created: 0, modified: 0, deleted: 0, symlink_created: 0, additions: 0, deletions: 0, truncated: false },
  files: [],
  limits: {}
}

/** Empty answers by path. */
const ABSENT: Readonly<Record<string, Reply['json']>> = {
  '/api/agents': { agents: [] },
  '/api/channels': { service_running: false, channels: {} },
  '/api/channels/providers': { enabled: false, providers: [] },
  '/api/channels/connections': { connections: [] },
  '/api/scheduled-tasks': []
}

/** The same, below a thread. */
const ABSENT_OF_THREAD: Readonly<Record<string, Reply['json']>> = {
  '/goal': { goal: null },
  '/scheduled-tasks': [],
  '/runs/{run_id}/workspace-changes': NO_CHANGES
}

export function featureRoutes(): Route[] {
  const off = { enabled: false }
  const features = { agents_api: off, browser_control: off, mcp_tasks: off }
  const answers = Object.entries({ '/api/features': features, ...ABSENT })
  const below = { method: 'GET', permission: 'threads:read', thread: 'read' } as const
  return [
    ...answers.map(([path, json]) => route({ method: 'GET', path, permission: 'any', handler: () => ({ json }) })),
    ...Object.entries(ABSENT_OF_THREAD).map(([path, json]) =>
      route({ ...below, path: `/api/threads/{thread_id}${path}`, handler: () => ({ json }) })
    )
  ]
}
