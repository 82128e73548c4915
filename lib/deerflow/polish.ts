// Polishes a draft: one model call outside any run, which writes nothing.
import * as v from 'valibot'
import { Failure, Refused } from '../base/errors.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { objectOf } from '../http/schema.ts'
import { one, shaped, text, yesNo } from '../routes/answers.ts'
import type { Services } from '../routes/services.ts'

const TIMEOUT_MS = 30_000
const polishBody = objectOf({
  text: v.string(),
  locale: v.nullish(v.pipe(v.string(), v.maxLength(64))),
  thread_id: v.nullish(v.pipe(v.string(), v.maxLength(256)))
})

const TASK = `Rewrite the draft of a message to an assistant so that it is clear and complete. Keep its language, its meaning, names, numbers,
code and links. Answer with the rewritten message alone.`

export function polishRoutes({ config, ask, log }: Pick<Services, 'config' | 'ask' | 'log'>): Route[] {
  const { enabled, max_chars, model_name } = config.input_polish

  const polish = async ({ body, user }: UserCall<v.InferOutput<typeof polishBody>>) => {
    if (!enabled) throw new Refused(404, 'Polishing is switched off')
    const draft = body.text.trim()
    if (draft === '' || draft.length > max_chars) throw new Refused(400, `A draft has 1 to ${max_chars} characters`)
    const language = body.locale ? `\nThe user's locale is ${body.locale}.` : ''
    const messages = [
      { role: 'system', content: TASK + language },
      { role: 'user', content: draft }
    ]
    const question = { messages, chosen: model_name }
    const answer = await ask(user, question, AbortSignal.timeout(TIMEOUT_MS)).catch((error: unknown) => {
      if (error instanceof Failure) throw error
      log.warn({ err: error }, 'a draft could not be polished: the model failed')
      return ''
    })
    const rewritten_text = answer.trim()
    if (rewritten_text === '') throw new Refused(503, 'The model did not answer')
    return { json: { rewritten_text, changed: rewritten_text !== draft } }
  }

  return [
    route({
      method: 'POST',
      path: '/api/input-polish',
      // It calls a model, as a run does.
      permission: 'runs:create',
      rule: null,
      summary: 'Rewrites a draft',
      answers: one(shaped({ rewritten_text: text, changed: yesNo })),
      refusals: [400, 404, 429, 503],
      body: polishBody,
      handler: polish
    })
  ]
}
