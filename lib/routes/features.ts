// Optional features, and empty answers of those that do not exist: front ends ask before they show a button, and would
// retry a 404.
import { type Call, type Reply, type Route, route } from '../http/route.ts'
import { fail } from '../base/errors.ts'
import type { Services } from './services.ts'

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

// ------------------------------------------------------------------------------------------------------------- models

export function modelRoutes({ agent, config }: Services): Route[] {
  const { enabled } = config.token_usage
  const list = (): Reply => ({ json: { models: agent.models?.() ?? [], token_usage: { enabled } } })

  const get = ({ params }: Call): Reply => {
    const name = params.model_name!
    const model = agent.models?.().find((one) => one.name === name)
    if (!model) throw fail('model_not_found', { name })
    return { json: model }
  }

  const reading = { method: 'GET', permission: 'any' } as const
  return [
    route({ ...reading, path: '/api/models', handler: list }),
    route({ ...reading, path: '/api/models/{model_name}', handler: get })
  ]
}
