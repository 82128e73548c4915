// Assistants: every graph has a system assistant that all users share; users create others.
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { GraphInfo, StatePort } from '../agent/states.ts'
import type { AssistantReads } from '../store/store.ts'
import { type Assistant, isObject, type JsonObject, type Timestamp, timestamp, uuidOf } from '../base/types.ts'
import { Containment } from './contains.ts'
import { LEAD_AGENT, type Personas } from './personas.ts'

interface AssistantQuery {
  readonly graphId: string | null
  /** A part of the name, case-insensitive. */
  readonly name: string | null
  readonly metadata: JsonObject
}

export interface RunAssistant {
  /** The assistant_id of the run; null: none was named. */
  readonly name: string | null
  readonly graphId: string
  /** The assistant id its thread is listed under. */
  readonly assistantId: string
  readonly config: JsonObject
  readonly context: JsonObject
  readonly metadata: JsonObject
  /** As whom the agent answers; missing: as itself. */
  readonly persona?: string
}

/** Which graphs a user may run by his groups; null: nobody in particular. */
interface GraphAccess {
  agentsFor(user: string | null): Promise<(graphId: string) => boolean>
}

interface AssistantsDeps {
  readonly store: AssistantReads
  readonly personas: Pick<Personas, 'named'>
  readonly states: Pick<StatePort, 'graphs' | 'isOfGraphs'>
  readonly access: GraphAccess
}

/** LangGraph's namespace UUID for assistant ids. */
const NAMESPACE = Buffer.from('6ba7b8219dad11d180b400c04fd430c8', 'hex')
/** Names that are accepted for assistants that do not exist. */
export const NAME = /^[a-z0-9_-]+$/i
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function isUuid(text: string): boolean {
  return UUID.test(text)
}

/** The id of a graph's system assistant, the same on every server: a UUIDv5, as in LangGraph. */
export function systemAssistantId(graphId: string): string {
  const known = systemIds.get(graphId)
  if (known !== undefined) return known
  const id = uuidOf(createHash('sha1').update(NAMESPACE).update(graphId).digest(), 5)
  systemIds.set(graphId, id)
  return id
}

/** Each run asks for that of its graph. */
const systemIds = new LRUCache<string, string>({ max: 1_000 })

export class Assistants {
  readonly #deps: AssistantsDeps
  readonly #since: Timestamp = timestamp()

  constructor(deps: AssistantsDeps) {
    this.#deps = deps
  }

  /** Whether any name is accepted, as for agents without graphs: memory is kept by it [spec]. */
  get takesAnyName(): boolean {
    return !this.#deps.states.isOfGraphs
  }

  /** Whether a graph of this id is there. */
  hasGraph(graphId: string): boolean {
    return this.#deps.states.graphs().some(({ id }) => id === graphId)
  }

  /** Those of the graphs that a user may run; null: that everybody may. The first is the default. */
  async system(user: string | null): Promise<Assistant[]> {
    const mayRun = await this.#deps.access.agentsFor(user)
    const graphs = this.#deps.states.graphs().filter(({ id }) => mayRun(id))
    return graphs.map((graph) => this.#systemOf(graph))
  }

  /** All that a user may run, in any order: his own as well, where their graph is not for other groups. */
  async runnable(user: string): Promise<Assistant[]> {
    const mayRun = await this.#deps.access.agentsFor(user)
    const all = await this.#all(user)
    return all.filter(({ graph_id }) => mayRun(graph_id))
  }

  /** By its id; a system assistant also by the name of its graph. */
  async get(id: string, user: string): Promise<Assistant | null> {
    return this.systemNamed(id) ?? (isUuid(id) ? this.#deps.store.get(id, user) : null)
  }

  /** System assistants cannot be changed. */
  isSystem(id: string): boolean {
    return this.systemNamed(id) !== null
  }

  /** The same, where it is shown: what a graph for other groups is made of is not. */
  async shown(id: string, user: string): Promise<Assistant | null> {
    const found = await this.get(id, user)
    if (found?.user_id !== null) return found
    const mayRun = await this.#deps.access.agentsFor(user)
    return mayRun(found.graph_id) ? found : null
  }

  /** All that match and are shown to a user, in any order. @throws TooCostly */
  async search(query: AssistantQuery, user: string): Promise<Assistant[]> {
    const { graphId, metadata } = query
    const name = query.name?.toLowerCase()
    const all = await this.#all(user)
    const containment = new Containment()
    const isNamed = (one: Assistant) =>
      (graphId === null || one.graph_id === graphId) && (name === undefined || one.name.toLowerCase().includes(name))
    return containment.among(all.filter(isNamed), metadata)
  }

  async #all(user: string): Promise<Assistant[]> {
    return [...(await this.#deps.store.list(user)), ...(await this.system(user))]
  }

  /**
   * The assistant of a run that gives this name; null: unknown.
   * @param persona the user's own as whom a graph is to answer; one that is not there is the graph's own matter
   */
  async resolve(name: string | null, user: string | null, persona: string | null = null): Promise<RunAssistant | null> {
    const [first, ...others] = this.#deps.states.graphs()
    // The first that the user may run; where there is none, the run is refused by the name of the first of all.
    const [allowed] = name === null && others.length > 0 ? await this.system(user) : []
    const system = name === null ? (allowed ?? (first && this.#systemOf(first))) : this.systemNamed(name)
    const asked = system?.graph_id === LEAD_AGENT ? persona : this.takesAnyName ? name : null
    const called = asked === null || user === null ? null : await this.#deps.personas.named(asked, user)
    if (called && this.hasGraph(called.graph_id)) return this.#asPersona(called)
    // Runs show the agent's name, whether it was given by name or id.
    if (system && this.takesAnyName) return { ...bare(system.graph_id), name: name && system.graph_id }
    const found = system ?? (name !== null && isUuid(name) ? await this.#deps.store.get(name, user) : null)
    if (found) return this.hasGraph(found.graph_id) ? runAssistant(found) : null
    const isFree = this.takesAnyName && name !== null && NAME.test(name.trim()) && !isUuid(name)
    return isFree ? bare(name) : null
  }

  /** An agent without graphs keeps its memory by the persona's name. */
  #asPersona(persona: Assistant): RunAssistant {
    const { name } = persona
    return { ...runAssistant(persona), ...(this.takesAnyName && { name }), persona: name }
  }

  /** By the name of its graph or its id, whoever may run it. */
  systemNamed(id: string): Assistant | null {
    const graph = this.#deps.states.graphs().find((one) => one.id === id || systemAssistantId(one.id) === id)
    return graph ? this.#systemOf(graph) : null
  }

  #systemOf({ id, description, config = {}, context = {} }: GraphInfo): Assistant {
    return {
      assistant_id: systemAssistantId(id),
      user_id: null,
      graph_id: id,
      name: id,
      description,
      config,
      context,
      metadata: { created_by: 'system' },
      version: 1,
      created_at: this.#since,
      updated_at: this.#since
    }
  }
}

function runAssistant({ assistant_id, graph_id, config, context, metadata }: Assistant): RunAssistant {
  return { name: assistant_id, graphId: graph_id, assistantId: assistant_id, config, context, metadata }
}

/** An assistant without configuration. */
function bare(name: string): RunAssistant {
  return { name, graphId: name, assistantId: name, config: {}, context: {}, metadata: {} }
}

/** Config of a run: the assistant's, overridden member by member by the caller's. */
export function withAssistant(
  { config, context }: Pick<RunAssistant, 'config' | 'context'>,
  given: { readonly config: JsonObject | null; readonly context: JsonObject | null }
): { config: JsonObject | null; context: JsonObject | null } {
  if (Object.keys(config).length + Object.keys(context).length === 0) return given
  const named = new Set(Object.keys(given.context ?? {}))
  const part = (from: JsonObject, name: string): JsonObject => (isObject(from[name]) ? from[name] : {})
  // The caller's value in one place overrides the assistant's in another.
  const unnamed = (object: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(object).filter(([key]) => !named.has(key)))
  const over = given.config ?? {}
  const parts = ['configurable', 'context'].filter((name) => isObject(config[name]) || isObject(over[name]))
  const merged = parts.map((name) => [name, { ...unnamed(part(config, name)), ...part(over, name) }])
  return {
    config: { ...config, ...over, ...Object.fromEntries(merged) },
    context: { ...context, ...given.context }
  }
}
