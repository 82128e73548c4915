// Models of this protocol: the assistants that the caller may run, and the configured models of the first one.
import type { User } from '../../base/accounts.ts'
import { fail } from '../../base/errors.ts'
import type { Reply, UserCall } from '../../http/route.ts'
import type { Services } from '../../routes/services.ts'
import { isUuid } from '../../thread/assistants.ts'
import type { Json } from '../../base/types.ts'

type Parts = Pick<Services, 'assistants' | 'agent' | 'access'>

/** What a request's `model` names. */
interface Chosen {
  /** null: the first. */
  readonly assistant: string | null
  readonly modelName: string | null
}

interface Listed {
  readonly id: string
  readonly created: number
  readonly owned_by: string
}

/** @throws Failure model_not_found */
export async function chosen({ assistants, agent }: Parts, user: string, model: Json | undefined): Promise<Chosen> {
  if (model === undefined || model === null) return { assistant: null, modelName: null }
  const name = String(model).slice(0, 256)
  const assistant = await assistants.get(name, user)
  if (assistant) return { assistant: isUuid(name) ? assistant.assistant_id : name, modelName: null }
  const isConfigured = agent.models?.().some((one) => one.name === name) ?? false
  if (!isConfigured) throw fail('model_not_found', { name })
  return { assistant: null, modelName: name }
}

export class ModelRoutes {
  readonly #services: Parts

  constructor(services: Parts) {
    this.#services = services
  }

  async list({ user }: UserCall): Promise<Reply> {
    const data = (await this.#all(user)).map((one) => ({ object: 'model', ...one }))
    return { json: { object: 'list', data } }
  }

  async get({ user, params }: UserCall): Promise<Reply> {
    const id = params.model!
    const found = (await this.#all(user)).find((one) => one.id === id)
    if (!found) throw fail('model_not_found', { name: id.slice(0, 256) })
    return { json: { object: 'model', ...found } }
  }

  /** A project's rules decide about each of a user's assistants when it is run. */
  async #all(user: User): Promise<Listed[]> {
    const { assistants, agent, access } = this.#services
    const all = await assistants.runnable(user.id)
    const listed = all.map(({ assistant_id, user_id, graph_id, created_at }) => ({
      id: user_id === null ? graph_id : assistant_id,
      created: Math.floor(Date.parse(created_at) / 1000),
      owned_by: user_id === null ? 'colloquy' : 'user'
    }))
    const models = (agent.models?.() ?? []).filter(({ name }) => access.mayUse('models', name, user))
    return [...listed, ...models.map(({ name }) => ({ id: name, created: 0, owned_by: 'colloquy' }))]
  }
}
