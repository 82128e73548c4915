// The tables of all rooms that know routes/: those of other APIs and protocols, and what the command line does.
import { deerflowRoutes } from '../deerflow/index.ts'
import type { Route } from '../http/route.ts'
import { agUiRoutes } from '../protocols/ag-ui/index.ts'
import { copilotKitRoutes } from '../protocols/copilotkit/index.ts'
import { aiSdkRoutes } from '../protocols/ai-sdk/index.ts'
import { langgraphRoutes } from '../langgraph/api/index.ts'
import { a2aRoutes } from '../protocols/a2a/index.ts'
import { mcpRoutes } from '../protocols/mcp/index.ts'
import { openaiRoutes } from '../protocols/openai/index.ts'
import { Operations } from '../operator/operations.ts'
import { operationRoutes } from '../routes/operations.ts'
import type { Services } from '../routes/services.ts'

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
