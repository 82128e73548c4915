// Mails a link that sets a password to whoever has forgotten it. The link is made when its mail is sent: the table of jobs has no word of it.
import { randomUUID } from 'node:crypto'
import { isObject, type JsonObject } from '../base/types.ts'
import type { Job, NewJob } from '../store/store.ts'
import type { Done } from './runner.ts'

/** As People.MailRequest. */
interface Request {
  readonly address: string | null
  readonly request_id: string | null
  readonly language: string
}

interface PasswordMailDeps {
  /** A new link of an account; null: it gets none. */
  readonly linkOf: (userId: string) => Promise<{ readonly to: string; readonly url: string } | null>
  readonly minutes: number
  /** @throws Error when the server did not take it */
  readonly send: (mail: Mail, signal: AbortSignal) => Promise<void>
  /** It was taken. */
  readonly sent: (userId: string, request: Request) => Promise<void>
}

/** In plain text. */
export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

/** Of an account there is one at a time; null: of an address that has none, and nothing is sent. */
export function passwordMailOf(userId: string | null, request: Request): NewJob {
  const payload = JSON.stringify(request)
  return { kind: 'mail', key: userId ?? randomUUID(), user_id: userId, thread_id: null, due: 0, payload }
}

export function passwordMailDeed({ linkOf, minutes, send, sent }: PasswordMailDeps) {
  return async ({ user_id, payload }: Job, signal: AbortSignal): Promise<Done> => {
    const link = user_id === null ? null : await linkOf(user_id)
    if (user_id === null || link === null) return null
    const request = requestIn(payload)
    const words = request.language === 'de' ? german : english
    await send({ to: link.to, ...words(link.url, link.to, minutes) }, signal)
    await sent(user_id, request)
    return null
  }
}

type Words = (url: string, to: string, minutes: number) => Omit<Mail, 'to'>

const english: Words = (url, to, minutes) => ({
  subject: 'Set a new password',
  text: `Somebody, most likely you, has asked for a new password for ${to}.

Set it within ${minutes} minutes by this link, which is good once:

${url}

If it was not you, do nothing: the password stays as it is.
`
})

const german: Words = (url, to, minutes) => ({
  subject: 'Ein neues Passwort setzen',
  text: `Jemand, vermutlich du selbst, hat um ein neues Passwort für ${to} gebeten.

Setze es innerhalb von ${minutes} Minuten über diesen Link, der einmal gilt:

${url}

Wenn du es nicht warst, tu nichts: Das Passwort bleibt, wie es ist.
`
})

/** As passwordMailOf has written it. */
function requestIn(payload: string): Request {
  const parsed: unknown = JSON.parse(payload)
  const { address, request_id, language } = isObject(parsed) ? parsed : ({} as JsonObject)
  const text = (value: unknown) => (typeof value === 'string' ? value : null)
  return { address: text(address), request_id: text(request_id), language: text(language) ?? 'en' }
}
