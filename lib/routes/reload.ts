// Reads the configuration again, for administrators.
import { actorOf } from '../auth/audit.ts'
import { type Route, route } from '../http/route.ts'
import { arrayOf, one, shaped, text } from './answers.ts'
import type { Services } from './services.ts'

export function reloadRoutes({ reload }: Pick<Services, 'reload'>): Route[] {
  const texts = arrayOf(text)
  return [
    route({
      method: 'POST',
      path: '/api/v1/admin/reload',
      admin: true,
      permission: 'admin:users',
      summary: 'Read the configuration again, on every process; administrators only',
      answers: one(
        shaped({ processes: arrayOf(shaped({ process: text, taken: texts, left: texts, problems: texts })) })
      ),
      refusals: [422],
      rule: null,
      handler: async (call) => ({ json: { processes: await reload(actorOf(call)) } })
    })
  ]
}
