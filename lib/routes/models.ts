// The models that runs may name. Keys are never shown.
import { fail } from '../errors.ts'
import { type Route, route } from '../http/route.ts'
import type { Services } from './services.ts'

export function modelRoutes({ agent, config }: Services): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/models',
      permission: 'any',
      handler: () => ({
        json: { models: agent.models?.() ?? [], token_usage: { enabled: config.token_usage.enabled } }
      })
    }),
    route({
      method: 'GET',
      path: '/api/models/{model_name}',
      permission: 'any',
      handler: ({ params }) => {
        const name = params.model_name!
        const model = agent.models?.().find((one) => one.name === name)
        if (!model) throw fail('model_not_found', { name })
        return { json: model }
      }
    })
  ]
}
