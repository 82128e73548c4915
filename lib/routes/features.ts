// Optional features, and empty answers of those that do not exist: front ends ask before they show a button, and would
// retry a 404.
import { type Call, type Reply, type Route, route } from '../http/route.ts'
import { fail } from '../base/errors.ts'
import type { JsonObject } from '../base/types.ts'
import { anObject, anything, arrayOf, mapOf, one, ref, shaped, yesNo } from './answers.ts'
import { LEAD_AGENT } from '../thread/personas.ts'
import type { Services } from './services.ts'

const nothings = arrayOf(anything)

/** Path, what is always answered, the words for the reference, and its schema. */
type Constant = readonly [path: string, json: Reply['json'], summary: string, schema: JsonObject]

const CONSTANTS: readonly Constant[] = [
  [
    '/api/channels',
    { service_running: false, channels: {} },
    'Channels: always empty here',
    shaped({ service_running: yesNo, channels: anObject })
  ],
  [
    '/api/channels/providers',
    { enabled: false, providers: [] },
    'Providers of channels: always empty here',
    shaped({ enabled: yesNo, providers: nothings })
  ],
  [
    '/api/channels/connections',
    { connections: [] },
    'Connections of channels: always empty here',
    shaped({ connections: nothings })
  ]
]

/** Whether users have agents of their own: personas of the agent that DeerFlow's pages ask for. */
export function hasPersonas({ assistants }: Pick<Services, 'assistants'>): boolean {
  return assistants.hasGraph(LEAD_AGENT)
}

export function featureRoutes(services: Services): Route[] {
  const any = { method: 'GET', permission: 'any', rule: null } as const
  const off = { enabled: false }
  const sharing = { enabled: services.config.sharing !== 'off' }
  const features = () => ({
    ...{ agents_api: { enabled: hasPersonas(services) }, browser_control: off, mcp_tasks: off },
    sharing
  })
  return [
    route({
      ...any,
      path: '/api/features',
      summary: 'Optional features of this installation',
      answers: one(mapOf(shaped({ enabled: yesNo }))),
      handler: () => ({ json: features() })
    }),
    ...CONSTANTS.map(([path, json, summary, schema]) =>
      route({ ...any, path, summary, answers: one(schema), handler: () => ({ json }) })
    )
  ]
}

// ------------------------------------------------------------------------------------------------------------- models

export function modelRoutes({ models, config, access }: Services): Route[] {
  const { enabled } = config.token_usage
  const modelsOf = ({ user }: Call) => models().filter(({ name }) => access.mayUse('models', name, user))
  const list = (call: Call): Reply => ({ json: { models: modelsOf(call), token_usage: { enabled } } })

  const get = (call: Call): Reply => {
    const name = call.params.model_name!
    const model = modelsOf(call).find((one) => one.name === name)
    if (!model) throw fail('model_not_found', { name })
    return { json: model }
  }

  const reading = { method: 'GET', permission: 'any', rule: null } as const
  return [
    route({
      ...reading,
      path: '/api/models',
      summary: 'List the configured models',
      answers: one(shaped({ models: arrayOf(ref('Model')), token_usage: shaped({ enabled: yesNo }) })),
      handler: list
    }),
    route({
      ...reading,
      path: '/api/models/{model_name}',
      summary: 'A model',
      answers: one(ref('Model')),
      handler: get
    })
  ]
}
