// LangGraph's part of the API, one file per line.
import type { Route } from '../../http/route.ts'
import type { Services } from '../../routes/services.ts'
import { assistantRoutes } from './assistants.ts'
import { cronRoutes } from './crons.ts'
import { itemRoutes } from './items.ts'
import { protocolRoutes } from './protocol.ts'
import { runsAtOnceRoutes } from './runs-at-once.ts'
import { uiRoutes } from './ui.ts'

export function langgraphRoutes(services: Services): Route[] {
  return [
    ...assistantRoutes(services), // /api/assistants
    ...itemRoutes(services), // /api/store/items, /api/store/namespaces
    ...runsAtOnceRoutes(services), // /api/runs/batch, /api/runs/cancel
    ...protocolRoutes(services), // /api/threads/{thread_id}/commands, /stream/events
    ...cronRoutes(services), // /api/runs/crons
    ...uiRoutes(services) // /api/ui
  ]
}
