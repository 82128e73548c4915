// LangGraph's part of the API, one file per line.
import type { Route } from '../../http/route.ts'
import type { Services } from '../../routes/services.ts'
import { assistantRoutes } from './assistants.ts'
import { cronRoutes } from './crons.ts'
import { protocolRoutes } from './protocol.ts'
import { uiRoutes } from './ui.ts'

export function langgraphRoutes(services: Services): Route[] {
  return [
    ...assistantRoutes(services), // /api/assistants
    ...protocolRoutes(services), // /api/threads/{thread_id}/commands, /stream/events
    ...cronRoutes(services), // /api/runs/crons
    ...uiRoutes(services) // /api/ui
  ]
}
