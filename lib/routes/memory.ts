// The memory of the signed-in user: read, edit, export and import [contract 6.6].
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { type Reply, type Route, route, type UserCall } from '../http/route.ts'
import { objectOf } from '../http/schema.ts'
import {
  capped,
  emptyMemory,
  type FactFields,
  type Memory,
  MemorySchema,
  withChangedFact,
  withFact,
  withoutFact
} from '../memory/memory.ts'
import type { MemoryOwner } from '../memory/memories.ts'
import { isObject } from '../base/types.ts'
import { refuseHeld } from '../thread/holds.ts'
import { one, ref, shaped } from './answers.ts'
import type { Services } from './services.ts'

const CONTENT_MAX = 10_000
const content = v.pipe(v.string(), v.minLength(1), v.maxLength(CONTENT_MAX))
const category = v.pipe(v.string(), v.minLength(1), v.maxLength(64))
const confidence = v.pipe(v.number(), v.finite(), v.minValue(0), v.maxValue(1))

const NewFact = objectOf({
  content,
  category: v.optional(category, 'context'),
  confidence: v.optional(confidence, 0.5)
})
const ChangedFact = objectOf({
  content: v.nullish(content),
  category: v.nullish(category),
  confidence: v.nullish(confidence)
})

/** Facts in an import; `max_facts` of them are kept. */
const FACTS_MAX = 5_000
// Counted before any of them is checked.
const imported = v.pipe(
  v.unknown(),
  v.check(
    (body) => !isObject(body) || !Array.isArray(body.facts) || body.facts.length <= FACTS_MAX,
    `Value error, at most ${FACTS_MAX} facts`
  ),
  MemorySchema
)

/** What users see of the configuration: options are named, so that a new one is not shown by itself. */
const SHOWN = [
  'enabled',
  'storage_path',
  'debounce_seconds',
  'max_facts',
  'fact_confidence_threshold',
  'injection_enabled',
  'max_injection_tokens'
] as const

export function memoryRoutes({ config, memories, store }: Pick<Services, 'config' | 'memories' | 'store'>): Route[] {
  const shown = Object.fromEntries(SHOWN.map((name) => [name, config.memory[name]]))
  const { max_facts } = config.memory

  const read = async (call: UserCall): Promise<Reply> => ({ json: await memories.read(ownerOf(call)) })

  /** @param change null: the path's fact is not there */
  const changed = async (call: UserCall, change: (memory: Memory, now: string) => Memory | null): Promise<Reply> => {
    const now = new Date().toISOString()
    const memory = await memories.change(ownerOf(call), (before) => change(before, now))
    if (memory === null) throw fail('memory_fact_not_found', { id: call.params.fact_id! })
    return { json: memory }
  }

  /** The same where something is deleted, or replaced. */
  const lessened: typeof changed = async (call, change) => {
    await refuseHeld(store, 'user', call.user.id)
    return changed(call, change)
  }

  const path = '/api/memory'
  const oneFact = `${path}/facts/{fact_id}`
  const whole = { rule: null, answers: one(ref('Memory')) } as const
  return [
    route({ ...whole, method: 'GET', path, summary: 'The memory about the caller', handler: read }),
    // Memories are never cached; this is for clients that expect a cache.
    route({
      ...whole,
      method: 'POST',
      path: `${path}/reload`,
      summary: 'The same, read from disk again',
      handler: read
    }),
    route({ ...whole, method: 'GET', path: `${path}/export`, summary: 'Export the memory', handler: read }),
    route({
      ...whole,
      method: 'DELETE',
      refusals: [409],
      path,
      summary: 'Delete the memory',
      handler: (call) => lessened(call, (_memory, now) => emptyMemory(now))
    }),
    route({
      ...whole,
      method: 'POST',
      path: `${path}/import`,
      refusals: [409],
      summary: 'Import an exported memory',
      body: imported,
      bodyLimit: config.server.body_bytes,
      handler: (call) =>
        lessened(call, (_memory, now) => {
          return { ...call.body, lastUpdated: now, facts: capped(call.body.facts, max_facts) }
        })
    }),
    route({
      ...whole,
      method: 'POST',
      path: `${path}/facts`,
      refusals: [409],
      summary: 'Add a fact',
      body: NewFact,
      handler: async (call) => {
        const fact = { ...call.body, content: filled(call.body.content), source: 'manual' }
        // Where there are as many as may be, another one goes for it.
        const isFull = (await memories.read(ownerOf(call))).facts.length >= max_facts
        return (isFull ? lessened : changed)(call, (memory, now) => withFact(memory, fact, max_facts, now))
      }
    }),
    route({
      ...whole,
      method: 'PATCH',
      path: oneFact,
      refusals: [409],
      summary: 'Update a fact',
      body: ChangedFact,
      handler: (call) => {
        const fields = fieldsOf(call.body)
        return lessened(call, (memory, now) => withChangedFact(memory, call.params.fact_id!, fields, now))
      }
    }),
    route({
      ...whole,
      method: 'DELETE',
      refusals: [409],
      path: oneFact,
      summary: 'Delete a fact',
      handler: (call) => lessened(call, (memory, now) => withoutFact(memory, call.params.fact_id!, now))
    }),
    route({
      method: 'GET',
      path: `${path}/config`,
      rule: null,
      summary: 'Configuration of the memory',
      answers: one(ref('MemoryConfig')),
      handler: () => ({ json: shown })
    }),
    route({
      method: 'GET',
      path: `${path}/status`,
      rule: null,
      summary: 'Configuration and content of the memory',
      answers: one(shaped({ config: ref('MemoryConfig'), data: ref('Memory') })),
      handler: async (call) => ({ json: { config: shown, data: await memories.read(ownerOf(call)) } })
    })
  ]
}

function ownerOf({ user }: UserCall): MemoryOwner {
  return { userId: user.id, agentName: null }
}

/** Absent fields stay as they are. */
function fieldsOf({ content, category, confidence }: v.InferOutput<typeof ChangedFact>): FactFields {
  return {
    ...(typeof content === 'string' && { content: filled(content) }),
    ...(typeof category === 'string' && { category }),
    ...(typeof confidence === 'number' && { confidence })
  }
}

function filled(text: string): string {
  const trimmed = text.trim()
  if (trimmed === '') throw fail('memory_fact_blank')
  return trimmed
}
