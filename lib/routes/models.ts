// The models that runs may name. Keys are never shown.
import { fail } from '../errors.ts'
import type { Call, Reply } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import type { Services } from './services.ts'

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
