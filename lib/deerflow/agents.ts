// Custom agents: a view of the caller's personas, which are assistants of the lead agent. What an agent says, and the model and skills
// that it has, are the context of its assistant, so that a run of it needs nothing else.
import * as v from 'valibot'
import { Refused } from '../base/errors.ts'
import { type Assistant, isObject, type JsonObject } from '../base/types.ts'
import { type Authorization, type Reply, type Route, route, type UserCall } from '../http/route.ts'
import { isWithin, listOf, objectOf } from '../http/schema.ts'
import { arrayOf, number, one, openly, optionalText, orNull, shaped, text, yesNo } from '../routes/answers.ts'
import { bodyOf, changed, creating, holds, withBody } from '../routes/authorization.ts'
import { hasPersonas } from '../routes/features.ts'
import { tooLong } from '../routes/input.ts'
import type { Services } from '../routes/services.ts'
import { isPersonaName, LEAD_AGENT } from '../thread/personas.ts'
import { AgentFolders } from './agent-folder.ts'

/** As of other assistants: a search reads all of a user. */
const BODY_BYTES = 32 * 1024
const DISABLED =
  'Custom agents are personas of the graph lead_agent, which this server does not have (agents_api.enabled is false)'

const words = v.pipe(v.string(), v.maxLength(BODY_BYTES))
const names = listOf(v.pipe(v.string(), v.maxLength(128)), 256)
const content = {
  description: v.nullish(words),
  model: v.nullish(v.pipe(v.string(), v.maxLength(128))),
  tool_groups: v.nullish(names),
  skills: v.nullish(names),
  model_settings: v.nullish(
    v.strictObject({
      temperature: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(2))),
      max_tokens: v.nullish(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(200_000)))
    })
  ),
  thinking_enabled: v.nullish(v.boolean()),
  reasoning_effort: v.nullish(v.picklist(['low', 'medium', 'high'])),
  soul: v.nullish(words)
}
const createBody = objectOf({ ...content, name: v.string() })
const updateBody = objectOf(content)
const checkQuery = objectOf({ name: v.string() })
type Content = v.InferOutput<typeof updateBody>

const agentSchema = shaped({
  name: text,
  description: text,
  model: optionalText,
  tool_groups: orNull(arrayOf(text)),
  skills: orNull(arrayOf(text)),
  model_settings: orNull(openly({}, { temperature: orNull(number), max_tokens: orNull(number) })),
  thinking_enabled: orNull(yesNo),
  reasoning_effort: optionalText,
  soul: text
})

/** Members of an agent, and where its assistant has them. */
const IN_CONTEXT = {
  model: 'model_name',
  tool_groups: 'tool_groups',
  skills: 'skills',
  model_settings: 'model_settings',
  thinking_enabled: 'thinking_enabled',
  reasoning_effort: 'reasoning_effort'
} as const

function agentView({ name, description, context }: Assistant): JsonObject {
  const members = Object.entries(IN_CONTEXT).map(([member, key]) => [member, context[key] ?? null])
  return { name, description: description ?? '', ...Object.fromEntries(members), soul: context.instructions ?? '' }
}

/** Missing members stay, null clears one; of an agent's instructions null is nothing. */
function contextWith(before: JsonObject, set: Content): JsonObject {
  const context = { ...before }
  for (const [member, key] of Object.entries(IN_CONTEXT)) {
    // A body is JSON.
    const value = set[member as keyof Content] as JsonObject[string] | undefined
    if (value === null) delete context[key]
    else if (value !== undefined) context[key] = merged(context[key], value)
  }
  return typeof set.soul === 'string' ? { ...context, instructions: set.soul } : context
}

/** Settings of a model are set one by one. */
function merged(before: JsonObject[string] | undefined, value: JsonObject[string]): JsonObject[string] {
  return isObject(value) && isObject(before) ? { ...before, ...value } : value
}

export function agentRoutes(services: Services): Route[] {
  const { personas, models, paths, config } = services
  // DeerFlow's own agent is a graph, and looks for files.
  const folders = config.agent.runtime === 'graphs' ? new AgentFolders(paths) : null

  /** What DeerFlow's own agent has made in a conversation is an agent of its user, as soon as somebody asks. */
  const adopt = async (userId: string): Promise<void> => {
    if (!folders) return
    const known = new Set((await personas.list(userId)).map(({ name }) => name))
    for (const name of await folders.names(userId)) {
      if (known.has(name) || !isPersonaName(name)) continue
      const given = v.safeParse(updateBody, await folders.made(userId, name))
      if (!given.success) continue
      const { description, ...members } = given.output
      const content = { description: description ?? '', context: contextWith({}, members) }
      const made = await personas.create(name, userId, content)
      if (made) await folders.write(userId, agentView(made))
    }
  }

  const requireOn = (): void => {
    if (!hasPersonas(services)) throw new Refused(403, DISABLED)
  }

  /** @throws Refused 422 */
  const checkedName = (name: string): string => {
    requireOn()
    if (isPersonaName(name)) return name.toLowerCase()
    throw new Refused(422, `Invalid agent name '${name}': letters, digits and hyphens, 64 at most`)
  }

  /** @throws Refused 422 for a model that is not there, Invalid for an agent that is too large */
  const checkContent = (body: Content, context: JsonObject): void => {
    const known = models().map(({ name }) => name)
    if (typeof body.model === 'string' && known.length > 0 && !known.includes(body.model))
      throw new Refused(422, `There is no model '${body.model}'`)
    if (!isWithin({ description: body.description ?? '', ...context }, BODY_BYTES)) throw tooLong(['body'], BODY_BYTES)
  }

  const found = async ({ params, user }: UserCall): Promise<Assistant> => {
    const name = checkedName(params.agent_name!)
    await adopt(user.id)
    const persona = await personas.named(name, user.id)
    if (!persona) throw notFound(name)
    return persona
  }

  const list = async ({ body, user }: UserCall): Promise<Reply> => {
    requireOn()
    await adopt(user.id)
    const { wanted = {} } = (body ?? {}) as Asked
    const agents = (await personas.list(user.id)).filter(({ metadata }) => holds(metadata, wanted))
    return { json: { agents: agents.map(agentView) } }
  }

  const check = async ({ query, user }: UserCall<unknown, v.InferOutput<typeof checkQuery>>): Promise<Reply> => {
    const name = checkedName(query.name)
    await adopt(user.id)
    return { json: { available: (await personas.named(name, user.id)) === null, name } }
  }

  const create = async ({ body, user }: UserCall<v.InferOutput<typeof createBody>>): Promise<Reply> => {
    const name = checkedName(body.name)
    const context = contextWith({}, body)
    checkContent(body, context)
    const { metadata = {} } = body as { readonly metadata?: JsonObject }
    const given = { description: body.description ?? '', context, metadata }
    const made = await personas.create(name, user.id, given)
    if (!made) throw new Refused(409, `Agent '${name}' already exists`)
    await folders?.write(user.id, agentView(made))
    return { status: 201, json: agentView(made) }
  }

  const update = async (call: UserCall<Content>): Promise<Reply> => {
    const persona = await found(call)
    const { body, user } = call
    const context = contextWith(persona.context, body)
    const description = body.description === undefined ? (persona.description ?? '') : (body.description ?? '')
    checkContent({ ...body, description }, context)
    const changed = await personas.update(persona, user.id, { description, context })
    if (!changed) throw notFound(persona.name)
    await folders?.write(user.id, agentView(changed))
    return { json: agentView(changed) }
  }

  const remove = async (call: UserCall): Promise<Reply> => {
    const persona = await found(call)
    if (!(await personas.remove(persona, call.user.id))) throw notFound(persona.name)
    await folders?.remove(call.user.id, persona.name)
    return { status: 204 }
  }

  const path = '/api/agents'
  const below = `${path}/{agent_name}`
  const reading = { method: 'GET', permission: 'threads:read', refusals: [403, 422] } as const
  const writing = { permission: 'threads:write', bodyLimit: BODY_BYTES } as const
  return [
    route({
      ...reading,
      path,
      rule: searchingAgents,
      summary: 'Custom agents of the caller: assistants of the lead agent that have a name to be called by',
      answers: one(shaped({ agents: arrayOf(agentSchema) })),
      handler: list
    }),
    route({
      ...reading,
      path: `${path}/check`,
      rule: null,
      query: checkQuery,
      summary: 'Whether a name is free for a custom agent',
      answers: one(shaped({ available: yesNo, name: text })),
      handler: check
    }),
    route({
      ...reading,
      path: below,
      rule: onAgent(services, 'read'),
      summary: 'A custom agent',
      answers: one(agentSchema),
      handler: async (call) => ({ json: agentView(await found(call)) })
    }),
    route({
      ...writing,
      method: 'POST',
      path,
      rule: creating('assistants', ['name', 'description']),
      summary: 'Create a custom agent, which is an assistant of the lead agent',
      answers: one(agentSchema, 201),
      refusals: [403, 409],
      body: createBody,
      handler: create
    }),
    route({
      ...writing,
      method: 'PUT',
      path: below,
      rule: onAgent(services, 'update'),
      summary: 'Change a custom agent; missing fields stay, null clears one',
      answers: one(agentSchema),
      refusals: [403],
      body: updateBody,
      handler: update
    }),
    route({
      method: 'DELETE',
      path: below,
      permission: 'threads:delete',
      rule: onAgent(services, 'delete'),
      summary: 'Delete a custom agent; its threads stay',
      answers: { 204: null },
      refusals: [403, 409, 422],
      handler: remove
    })
  ]
}

function notFound(name: string): Refused {
  return new Refused(404, `Agent '${name}' not found`)
}

// The project's auth rules are asked about an agent as about the assistant that it is.

/** Metadata that the rules want of what is found. */
interface Asked {
  readonly wanted?: JsonObject
}

const searchingAgents: Authorization = async (call, ask) => {
  const wanted = await ask('assistants', 'search', { graph_id: LEAD_AGENT })
  return wanted === null ? call : withBody(call, { wanted })
}

function onAgent({ personas }: Pick<Services, 'personas'>, action: string): Authorization {
  return async (call, ask) => {
    const name = call.params.agent_name!
    const persona = await personas.named(name, call.user.id)
    const value: JsonObject = { assistant_id: persona?.assistant_id ?? name, ...structuredClone(bodyOf(call)) }
    const wanted = await ask('assistants', action, value)
    if (wanted && !(persona && holds(persona.metadata, wanted))) throw notFound(name)
    return changed(call, value)
  }
}
