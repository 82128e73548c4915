// What this installation offers beside conversations: pages ask before they show a button for it.
import { type Route, route } from '../http/route.ts'

export function featureRoutes(): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/features',
      access: 'user',
      handler: () => ({
        json: {
          agents_api: { enabled: false },
          browser_control: { enabled: false },
          mcp_tasks: { enabled: false }
        }
      })
    })
  ]
}
