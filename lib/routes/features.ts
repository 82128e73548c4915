// Which optional features exist, and empty answers for those that do not: pages ask for these before they show a
// button, and would retry a 404.
import type { Reply } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'

const NO_CHANGES = {
  available: false,
  version: 1,
  summary: { created: 0, modified: 0, deleted: 0, symlink_created: 0, additions: 0, deletions: 0, truncated: false },
  files: [],
  limits: {}
}

/** Answers of the features themselves, by path. */
const ABSENT: Readonly<Record<string, Reply['json']>> = {
  '/api/agents': { agents: [] },
  '/api/channels': { service_running: false, channels: {} },
  '/api/channels/providers': { enabled: false, providers: [] },
  '/api/channels/connections': { connections: [] },
  '/api/scheduled-tasks': []
}

/** The same below a thread, for who may see that. */
const ABSENT_OF_THREAD: Readonly<Record<string, Reply['json']>> = {
  '/goal': { goal: null },
  '/scheduled-tasks': [],
  '/runs/{run_id}/workspace-changes': NO_CHANGES
}

export function featureRoutes(): Route[] {
  const features = {
    agents_api: { enabled: false },
    browser_control: { enabled: false },
    mcp_tasks: { enabled: false }
  }
  const answers = Object.entries({ '/api/features': features, ...ABSENT })
  return [
    ...answers.map(([path, json]) => route({ method: 'GET', path, permission: 'any', handler: () => ({ json }) })),
    ...Object.entries(ABSENT_OF_THREAD).map(([path, json]) =>
      route({
        method: 'GET',
        path: `/api/threads/{thread_id}${path}`,
        permission: 'threads:read',
        thread: 'read',
        handler: () => ({ json })
      })
    )
  ]
}
