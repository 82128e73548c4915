// Personas: assistants of a user that are called by a name, as whom the agent answers. Pages of DeerFlow call them agents.
import { createHash, randomUUID } from 'node:crypto'
import type { AssistantReads, Writer } from '../store/store.ts'
import { type Assistant, type JsonObject, timestamp, uuidOf } from '../base/types.ts'
import { fail } from '../base/errors.ts'

/** Maximum assistants per user, and versions per assistant. */
export const ASSISTANTS_MAX = 500
export const VERSIONS_MAX = 100
/** The graph that they are assistants of: the built-in agent, or a graph of this name. */
export const LEAD_AGENT = 'lead_agent'
/** Its name is that of a folder of the agent's memory. */
const NAME = /^[a-z0-9-]{1,64}$/i

interface PersonasDeps {
  readonly reads: Pick<AssistantReads, 'list'>
  readonly writer: Writer
}

interface Content {
  readonly description: string
  readonly context: JsonObject
  readonly metadata?: JsonObject
}

interface Draft {
  readonly description: string
  readonly instructions: string
  /** null: as before. */
  readonly skills: readonly string[] | null
}

export function isPersonaName(name: unknown): name is string {
  return typeof name === 'string' && NAME.test(name)
}

export class Personas {
  readonly #deps: PersonasDeps

  constructor(deps: PersonasDeps) {
    this.#deps = deps
  }

  /** By name. Of several with one name, which clients of LangGraph can make, the oldest. */
  async list(user: string): Promise<Assistant[]> {
    const oldestFirst = (await this.#deps.reads.list(user)).toReversed()
    const named = new Map<string, Assistant>()
    for (const one of oldestFirst) {
      const name = one.name.toLowerCase()
      if (one.graph_id === LEAD_AGENT && isPersonaName(name) && !named.has(name)) named.set(name, { ...one, name })
    }
    return [...named.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** In any case of its letters; null: there is none. */
  async named(name: string, user: string): Promise<Assistant | null> {
    if (!isPersonaName(name)) return null
    const wanted = name.toLowerCase()
    return (await this.list(user)).find((one) => one.name === wanted) ?? null
  }

  /** @returns null when the name is taken. @throws Failure assistants_full */
  async create(name: string, user: string, content: Content): Promise<Assistant | null> {
    const lower = name.toLowerCase()
    if (await this.named(lower, user)) return null
    const now = timestamp()
    const make = (assistant_id: string) =>
      this.#deps.writer.write({
        name: 'assistant.create',
        max: ASSISTANTS_MAX,
        assistant: {
          ...{
            metadata: {},
            ...content,
            assistant_id,
            user_id: user,
            graph_id: LEAD_AGENT,
            name: lower,
            config: {},
            version: 1
          },
          created_at: now,
          updated_at: now
        }
      })
    // One id for a name, so that two who create it at the same time do not both. One that was renamed has it still.
    let made = await make(idOf(lower, user))
    if (made.outcome === 'there' && !made.created && made.assistant.name.toLowerCase() !== lower)
      made = await make(randomUUID())
    if (made.outcome === 'too_many') throw fail('assistants_full', { max: ASSISTANTS_MAX })
    return made.outcome === 'there' && made.created ? made.assistant : null
  }

  /** What the built-in agent has made of a conversation: it creates the persona, or changes what is given. */
  async save(name: string, user: string, { description, instructions, skills }: Draft): Promise<void> {
    if (!isPersonaName(name)) throw new Error('An agent is called by letters, digits and hyphens')
    const context: JsonObject = { instructions, ...(skills && { skills: [...skills] }) }
    const before = await this.named(name, user)
    const saved = before
      ? await this.update(before, user, { description, context: { ...before.context, ...context } })
      : await this.create(name, user, { description, context })
    if (!saved) throw new Error('The agent was changed by others at the same time: try again')
  }

  /** @returns null when it was deleted meanwhile */
  async update({ assistant_id }: Assistant, user: string, set: Partial<Content>): Promise<Assistant | null> {
    const write = { assistant_id, set, keep: VERSIONS_MAX, user, now: timestamp() }
    return this.#deps.writer.write({ name: 'assistant.update', ...write })
  }

  /** False: it was deleted meanwhile. */
  async remove({ assistant_id }: Assistant, user: string): Promise<boolean> {
    return this.#deps.writer.write({ name: 'assistant.remove', assistant_id, user })
  }
}

function idOf(name: string, user: string): string {
  return uuidOf(createHash('sha1').update(`persona ${user} ${name}`).digest(), 5)
}
