// Suggested follow-up questions. Best effort: on any failure there are none [contract 6.3].
import * as v from 'valibot'
import { Failure } from '../base/errors.ts'
import { type Reply, type Route, route, type UserCall } from '../http/route.ts'
import { integer, listOf, objectOf } from '../http/schema.ts'
import { arrayOf, int, one, shaped, text, yesNo } from './answers.ts'
import type { Services } from './services.ts'

const TEXT_MAX = 200
/** What the model reads: characters per message, and messages. */
const MESSAGE_CHARS = 2_000
const MESSAGES = 20
const MESSAGES_MAX = 1_000
const TIMEOUT_MS = 20_000
/** Clients send the end of a conversation with complete answers. */
const BODY_BYTES = 1024 * 1024

/** Questions that show what the demo model does, and what the page does with it. */
const DEMO_STARTERS = ['Show me everything', 'Think, then write a report', 'A table and some code', 'Ask me something']

const Body = objectOf({
  messages: listOf(objectOf({ role: v.string(), content: v.string() }), MESSAGES_MAX),
  n: v.optional(integer({ min: 1, max: 5 }), 3),
  model_name: v.nullish(v.string(), null)
})
type Body = v.InferOutput<typeof Body>

export function suggestionRoutes({ config, ask, log }: Pick<Services, 'config' | 'ask' | 'log'>): Route[] {
  const { enabled, max_suggestions, model_name } = config.suggestions

  const isDemo = config.models.length === 0 && config.agent.runtime === 'lead'
  const starters = config.console.starters.length > 0 || !isDemo ? config.console.starters : DEMO_STARTERS

  const suggest = async ({ body, user }: UserCall<Body>): Promise<Reply> => {
    if (!enabled || body.messages.length === 0) return { json: { suggestions: [] } }
    const n = Math.min(body.n, max_suggestions)
    try {
      const messages = [{ role: 'user', content: question(body, n) }]
      const signal = AbortSignal.timeout(TIMEOUT_MS)
      const text = await ask(user, { messages, named: body.model_name, chosen: model_name }, signal)
      return { json: { suggestions: read(text, n) } }
    } catch (error) {
      if (error instanceof Failure) throw error
      log.warn({ err: error }, 'suggestions are left out: the model failed')
      return { json: { suggestions: [] } }
    }
  }

  return [
    route({
      method: 'POST',
      path: '/api/threads/{thread_id}/suggestions',
      // It calls a model, as a run does.
      permission: 'runs:create',
      thread: 'read',
      rule: 'threads:read',
      summary: 'Suggest follow-up questions',
      answers: one(shaped({ suggestions: arrayOf(text) })),
      body: Body,
      bodyLimit: BODY_BYTES,
      handler: suggest
    }),
    route({
      method: 'GET',
      path: '/api/suggestions/config',
      rule: null,
      summary:
        'Whether suggestions are enabled, how many there are at most, and first questions for an empty conversation',
      answers: one(shaped({ enabled: yesNo, max_suggestions: int, starters: arrayOf(text) })),
      handler: () => ({ json: { enabled, max_suggestions, starters } })
    })
  ]
}

function question({ messages }: Body, n: number): string {
  const said = messages.slice(-MESSAGES).map(({ role, content }) => `${role}: ${content.slice(0, MESSAGE_CHARS)}`)
  return [
    `Below is the end of a conversation. Write ${n} short questions that its user could ask next, in the user's language.`,
    'Answer with a JSON array of strings and nothing else.',
    ...said
  ].join('\n\n')
}

/** The texts of the JSON array in an answer; code fences and words around it are ignored. */
function read(answer: string, n: number): string[] {
  const from = answer.indexOf('[')
  const to = answer.lastIndexOf(']')
  if (from < 0 || to < from) return []
  try {
    const list: unknown = JSON.parse(answer.slice(from, to + 1))
    if (!Array.isArray(list)) return []
    const texts = list.filter((item) => typeof item === 'string').map((text) => text.replace(/\s+/gu, ' ').trim())
    return texts.filter((text) => text !== '' && text.length <= TEXT_MAX).slice(0, n)
  } catch {
    return []
  }
}
