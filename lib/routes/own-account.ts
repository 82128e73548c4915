// The caller's own account: who it is, its password, its sessions, what is kept of it, and its end.
import * as v from 'valibot'
import { actorOf, userName } from '../auth/audit.ts'
import { hashPassword } from '../auth/password.ts'
import { readEmail } from '../auth/email.ts'
import { type AccountChange, changeAccount } from '../auth/session.ts'
import type { User } from '../base/accounts.ts'
import { fail } from '../base/errors.ts'
import type { JsonObject } from '../base/types.ts'
import { type Call, type Cookie, HANDLED, type Reply, requireUser, type Route, route } from '../http/route.ts'
import { describedAs, objectOf } from '../http/schema.ts'
import { sendDownload } from '../http/streaming-response.ts'
import { file, int, int64, message, one, ref, shaped, success, text } from './answers.ts'
import { openSession } from './open-session.ts'
import { newPassword, type Passwords, unlessBusy } from './passwords.ts'
import type { AuthServices } from './services.ts'

/** The normalised email address of a new account. */
export const newEmail = v.pipe(
  v.string(),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return
    const read = readEmail(dataset.value)
    if ('problem' in read) addIssue({ message: `value is not a valid email address: ${read.problem}` })
  }),
  v.transform((text) => {
    const read = readEmail(text)
    return 'email' in read ? read.email : text
  }),
  describedAs<string>({ format: 'email' })
)

const changeBody = objectOf({
  current_password: v.string(),
  new_password: newPassword,
  new_email: v.nullish(newEmail),
  // API tokens survive a password change, unless this says that they may be compromised too.
  revoke_tokens: v.optional(v.boolean(), false)
})
const removeBody = objectOf({ current_password: v.optional(v.string(), '') })

export function userView({ id, email, system_role, needs_setup, oauth_provider }: User): JsonObject {
  // DeerFlow's page knows no other roles.
  return { id, email, system_role: system_role === 'admin' ? 'admin' : 'user', needs_setup, oauth_provider }
}

export function ownAccountRoutes(services: AuthServices, passwords: Passwords): Route[] {
  const { users, writer, sessions, tokens, apiTokens, people, audit } = services

  /** Whether this session was created with `remember_me`. */
  const isRemembered = async ({ credential }: Call): Promise<boolean> => {
    const found = await tokens.read(credential ?? '')
    return 'claims' in found && found.claims.remember
  }

  /** The caller's own session, opened anew as it was. */
  const renewed = async (call: Call, user: User): Promise<readonly Cookie[]> =>
    (await openSession(services, call, user, await isRemembered(call))).cookies

  /** Applies `change` and raises token_version, which ends the user's sessions. */
  const changed = async (id: string, change: (now: User) => AccountChange): Promise<User> => {
    const updated = await passwords.inOrder.run(id, () => changeAccount({ users, writer }, id, change))
    if (updated === null) throw fail('user_not_found') // [User 4]
    if (updated === 'email_taken') throw fail('email_in_use')
    sessions.revokeUser(id)
    return updated
  }

  const exportAccount = async (call: Call): Promise<typeof HANDLED> => {
    const user = requireUser(call)
    await audit.record('account_exported', actorOf(call), userName(user.id))
    await sendDownload(call, await services.exportOf(user), { name: 'colloquy-export.zip', type: 'application/zip' })
    return HANDLED
  }

  const changePassword = async (call: Call<v.InferOutput<typeof changeBody>>): Promise<Reply> => {
    const user = requireUser(call)
    passwords.refuseLocal()
    const { current_password, new_password, new_email, revoke_tokens } = call.body
    if (user.password_hash === null) throw fail('password_not_used')
    if (!(await passwords.isRight(call, current_password, user.password_hash))) throw fail('current_password_wrong')
    const password_hash = await unlessBusy(hashPassword(new_password, { address: call.address }))
    const email = new_email == null ? {} : { email: new_email, needs_setup: false }
    const updated = await changed(user.id, (now) => {
      // Of two concurrent changes the second was authorised by an outdated password.
      if (now.token_version !== user.token_version) throw fail('token_revoked')
      return { password_hash, ...email }
    })
    await people.endPasswordLinks(user.id)
    await audit.record('password', actorOf(call), userName(user.id), { how: 'changed' })
    if (new_email != null && updated.email !== user.email) await audit.record('email', actorOf(call), userName(user.id))
    const revoked = revoke_tokens ? await apiTokens.revokeAll(user.id) : 0
    const active = (await apiTokens.list(user.id)).length
    return {
      json: { message: 'Password changed successfully', tokens_revoked: revoked, tokens_standing: active },
      cookies: await renewed(call, updated)
    }
  }

  /** Ends all sessions but the caller's. */
  const endSessions = async (call: Call): Promise<Reply> => {
    const { id } = requireUser(call)
    const updated = await changed(id, () => ({}))
    await audit.record('sessions_ended', actorOf(call), userName(id))
    return {
      json: { message: 'All other sessions have ended' },
      cookies: await renewed(call, updated)
    }
  }

  /** Whoever has a password says it once more: a page left open must not be enough. */
  const removeOwn = async (call: Call<v.InferOutput<typeof removeBody>>): Promise<Reply> => {
    const { id, password_hash } = requireUser(call)
    const { current_password: password } = call.body
    if (password_hash !== null && !(await passwords.isRight(call, password, password_hash)))
      throw fail('current_password_wrong')
    await people.remove(id, actorOf(call))
    return { json: { success: true } }
  }

  const at = (path: string) => `/api/v1/auth${path}`
  const counted = shaped({ used: int64, max: { type: ['integer', 'null'] } })
  return [
    route({
      method: 'POST',
      path: at('/sessions/end'),
      rule: null,
      summary: 'End all other sessions of the caller, on any device',
      answers: message,
      handler: endSessions
    }),
    route({
      method: 'POST',
      path: at('/change-password'),
      body: changeBody,
      rule: null,
      summary: 'Change the password and end all other sessions',
      answers: one(shaped({ message: text, tokens_revoked: int, tokens_standing: int })),
      handler: changePassword
    }),
    route({
      method: 'GET',
      path: at('/me'),
      permission: 'any',
      rule: null,
      summary: 'The signed-in user',
      answers: one(ref('User')),
      handler: async (call) => {
        const user = requireUser(call)
        return { json: { ...userView(user), quotas: await services.limits.quotaView(user) } }
      }
    }),
    route({
      method: 'GET',
      path: at('/limits'),
      permission: 'any',
      rule: null,
      summary: 'What is stored of the caller, and how much may be; `max` null: no limit',
      answers: one(shaped({ threads: counted, bytes: counted, crons: counted, webhooks: counted })),
      handler: async (call) => ({ json: await services.limits.view(requireUser(call).id) })
    }),
    route({
      method: 'GET',
      path: at('/export'),
      rule: null,
      summary: 'Everything that is kept of the caller, as a ZIP archive: conversations as JSON and Markdown, and files',
      answers: file('application/zip'),
      handler: exportAccount
    }),
    route({
      method: 'DELETE',
      path: at('/me'),
      body: removeBody,
      bodyOptional: true,
      summary: 'Delete the caller’s account and everything that belongs to it',
      answers: success,
      refusals: [409],
      rule: null,
      handler: removeOwn
    })
  ]
}
