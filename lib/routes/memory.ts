// The memory of the signed-in user: read, edit, export and import [contract 6.6].
import * as v from 'valibot'
import type { Config } from '../config.ts'
import { fail } from '../errors.ts'
import type { Reply, UserCall } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
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
import { isObject } from '../types.ts'
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

/** Facts of an import; of these `max_facts` are kept. */
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

export function memoryRoutes({ config, memories }: Pick<Services, 'config' | 'memories'>): Route[] {
  const { max_facts } = config.memory

  const read = async (call: UserCall): Promise<Reply> => ({ json: await memories.read(ownerOf(call)) })

  /** @param change null: the path's fact is not there */
  const changed = async (call: UserCall, change: (memory: Memory, now: string) => Memory | null): Promise<Reply> => {
    const now = new Date().toISOString()
    const memory = await memories.change(ownerOf(call), (before) => change(before, now))
    if (memory === null) throw fail('memory_fact_not_found', { id: call.params.fact_id! })
    return { json: memory }
  }

  return [
    route({ method: 'GET', path: '/api/memory', handler: read }),
    // Every read is from the disk: this one is for clients that know caches.
    route({ method: 'POST', path: '/api/memory/reload', handler: read }),
    route({ method: 'GET', path: '/api/memory/export', handler: read }),
    route({
      method: 'DELETE',
      path: '/api/memory',
      handler: (call) => changed(call, (_memory, now) => emptyMemory(now))
    }),
    route({
      method: 'POST',
      path: '/api/memory/import',
      body: imported,
      bodyLimit: config.server.body_bytes,
      handler: (call) =>
        changed(call, (_memory, now) => ({
          ...call.body,
          lastUpdated: now,
          facts: capped(call.body.facts, max_facts)
        }))
    }),
    route({
      method: 'POST',
      path: '/api/memory/facts',
      body: NewFact,
      handler: (call) => {
        const fact = { ...call.body, content: filled(call.body.content), source: 'manual' }
        return changed(call, (memory, now) => withFact(memory, fact, max_facts, now))
      }
    }),
    route({
      method: 'PATCH',
      path: '/api/memory/facts/{fact_id}',
      body: ChangedFact,
      handler: (call) => {
        const fields = fieldsOf(call.body)
        return changed(call, (memory, now) => withChangedFact(memory, call.params.fact_id!, fields, now))
      }
    }),
    route({
      method: 'DELETE',
      path: '/api/memory/facts/{fact_id}',
      handler: (call) => changed(call, (memory, now) => withoutFact(memory, call.params.fact_id!, now))
    }),
    route({ method: 'GET', path: '/api/memory/config', handler: () => ({ json: configView(config.memory) }) }),
    route({
      method: 'GET',
      path: '/api/memory/status',
      handler: async (call) => ({
        json: { config: configView(config.memory), data: await memories.read(ownerOf(call)) }
      })
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

function configView(memory: Config['memory']) {
  return {
    enabled: memory.enabled,
    storage_path: memory.storage_path,
    debounce_seconds: memory.debounce_seconds,
    max_facts: memory.max_facts,
    fact_confidence_threshold: memory.fact_confidence_threshold,
    injection_enabled: memory.injection_enabled,
    max_injection_tokens: memory.max_injection_tokens
  }
}
