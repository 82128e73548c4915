// Compacts a thread: old messages are replaced by a summary, for the model only. What users see stays.
import * as v from 'valibot'
import { coveredBy, lengthOf, SUMMARY_TEXT, SUMMARY_UNTIL, summaryPlan } from '../agent/summary.ts'
import { Failure, fail, Refused } from '../base/errors.ts'
import { isObject, type Json, type Message } from '../base/types.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { objectOf } from '../http/schema.ts'
import { int, one, orNull, shaped, text, yesNo } from '../routes/answers.ts'
import type { Services } from '../routes/services.ts'
import { writtenState } from '../routes/state.ts'

const TIMEOUT_MS = 60_000
const CHARS_PER_TOKEN = 4
const NEWEST = { checkpointId: null, namespace: '' } as const
const name = v.nullish(v.pipe(v.string(), v.maxLength(128)))
const compactBody = objectOf({
  force: v.nullish(v.boolean(), true),
  keep: v.nullish(objectOf({ type: v.picklist(['fraction', 'tokens', 'messages']), value: v.number() })),
  agent_name: name,
  model_name: name
})
type Body = v.InferOutput<typeof compactBody>

export function compactRoutes({
  config,
  states,
  store,
  ask,
  log
}: Pick<Services, 'config' | 'states' | 'store' | 'ask' | 'log'>): Route[] {
  const { enabled, keep_messages, model_name } = config.summarization

  const compact = async ({ params, body, user }: UserCall<Body>) => {
    const threadId = params.thread_id!
    if (!enabled || config.agent.runtime !== 'lead') throw new Refused(409, 'Summaries are switched off')
    const state = await states.values(threadId, null)
    const values = state === null ? null : (JSON.parse(state.json) as Json)
    if (!isObject(values)) throw new Refused(404, `Thread ${threadId} has no checkpoint`)
    // The state of the built-in agent: messages as they were checked when they came in.
    const messages = (Array.isArray(values.messages) ? values.messages : []) as unknown as Message[]
    const covered = coveredBy(values[SUMMARY_UNTIL], messages)
    const keep = keptOf(body.keep, messages, keep_messages)
    const plan = summaryPlan(messages, covered, keep, values[SUMMARY_TEXT])
    if (plan === null) return reply(threadId, messages, covered, null)
    // The summary would be refused when the model has made it.
    if ((await store.runs.inFlight(threadId)).length > 0) throw fail('thread_in_flight', { id: threadId })
    const question = { messages: plan.question, named: body.model_name, chosen: model_name }
    const summary = await ask(user, question, AbortSignal.timeout(TIMEOUT_MS)).catch((error: unknown) => {
      if (error instanceof Failure) throw error
      log.warn({ err: error, thread_id: threadId }, 'a thread could not be summarised: the model failed')
      return ''
    })
    if (summary.trim() === '') throw new Refused(500, 'The summary failed')
    const update = { [SUMMARY_TEXT]: summary, [SUMMARY_UNTIL]: messages[plan.until - 1]!.id }
    const change = { place: NEWEST, values: update, asNode: null, user: user.id }
    const written = JSON.parse(writtenState(await states.update(threadId, change), threadId, null)) as Json
    const at = isObject(written) && isObject(written.checkpoint) ? written.checkpoint.checkpoint_id : null
    return reply(threadId, messages, plan.until, { removed: plan.until - covered, checkpoint: at ?? null, summary })
  }

  return [
    route({
      method: 'POST',
      path: '/api/threads/{thread_id}/compact',
      permission: 'runs:create',
      thread: 'write',
      rule: 'threads:update',
      summary: 'Replaces old messages by a summary, for the model only',
      answers: one(
        shaped({
          thread_id: text,
          compacted: yesNo,
          reason: orNull(text),
          removed_message_count: int,
          preserved_message_count: int,
          summary_updated: yesNo,
          checkpoint_id: orNull(text),
          total_tokens: int
        })
      ),
      refusals: [404, 409, 429, 500],
      body: compactBody,
      bodyOptional: true,
      handler: compact
    })
  ]
}

/** Number of newest messages to keep. */
function keptOf(keep: Body['keep'], messages: readonly Message[], byDefault: number): number {
  if (!keep) return byDefault
  const value = Math.max(0, keep.value)
  if (keep.type === 'messages') return Math.floor(value)
  if (keep.type === 'fraction') return Math.ceil(messages.length * Math.min(1, value))
  let tokens = 0
  let count = 0
  for (const message of messages.toReversed()) {
    tokens += lengthOf(message) / CHARS_PER_TOKEN
    if (tokens > value) break
    count++
  }
  return count
}

function reply(
  thread_id: string,
  messages: readonly Message[],
  until: number,
  done: { readonly removed: number; readonly checkpoint: Json; readonly summary: string } | null
) {
  const kept = messages.slice(until)
  const characters = kept.reduce((sum, message) => sum + lengthOf(message), done?.summary.length ?? 0)
  return {
    json: {
      thread_id,
      compacted: done !== null,
      reason: done === null ? 'not_enough_messages' : null,
      removed_message_count: done?.removed ?? 0,
      preserved_message_count: kept.length,
      summary_updated: done !== null,
      checkpoint_id: done?.checkpoint ?? null,
      total_tokens: Math.ceil(characters / CHARS_PER_TOKEN)
    }
  }
}
