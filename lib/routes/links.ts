// Links to a thread, for who is to read it: create, list, revoke. Sessions only, as with API tokens: a link may be given to anybody.
import * as v from 'valibot'
import { actorOf, type Audit, linkName } from '../auth/audit.ts'
import type { ThreadLinks } from '../auth/thread-links.ts'
import { fail } from '../base/errors.ts'
import { type ApiToken, THREAD_FILES } from '../base/accounts.ts'
import type { JsonObject } from '../base/types.ts'
import type { Config } from '../config/config.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { integer, objectOf } from '../http/schema.ts'
import { arrayOf, one, ref, shaped, success } from './answers.ts'
import { DAY_MS } from './api-tokens.ts'
import { baseUrlOf } from '../http/base-path.ts'

const DAYS_MAX = 365

const linkBody = objectOf({
  expires_in_days: v.optional(integer({ min: 1, max: DAYS_MAX }), 30),
  // The files of the thread are open too.
  files: v.optional(v.boolean(), false)
})

/** Without the digest. */
function linkView({ token_id, thread_id = '', scopes, created_at, expires_at }: ApiToken): JsonObject {
  return { link_id: token_id, thread_id, files: scopes.includes(THREAD_FILES), created_at, expires_at }
}

interface LinkServices {
  readonly threadLinks: ThreadLinks
  readonly audit: Audit
  readonly config: Pick<Config, 'server'>
}

export function linkRoutes({ threadLinks, audit, config }: LinkServices): Route[] {
  const create = async (call: UserCall<v.InferOutput<typeof linkBody>>) => {
    const { expires_in_days: days, files } = call.body
    const thread_id = call.params.thread_id!
    const wanted = { user_id: call.user.id, thread_id, hasFiles: files, lifetimeMs: days * DAY_MS }
    const { token, text } = await threadLinks.create(wanted)
    await audit.record('link_created', actorOf(call), linkName(token.token_id), { thread_id, files })
    // Behind the #: browsers send that to nobody, and no log has it.
    const url = `${baseUrlOf(call, config.server.public_url)}/#/shared/${thread_id}/${text}`
    return { status: 201, json: { ...linkView(token), link: text, url } }
  }

  const list = async ({ params }: UserCall) => ({
    json: { links: (await threadLinks.list(params.thread_id!)).map(linkView) }
  })

  const revoke = async (call: UserCall) => {
    const { thread_id = '', link_id: id = '' } = call.params
    if (!(await threadLinks.revoke(thread_id, id))) throw fail('link_not_found', { id })
    await audit.record('link_revoked', actorOf(call), linkName(id), { thread_id })
    return { json: { success: true } }
  }

  const path = '/api/threads/{thread_id}/links'
  return [
    route({
      method: 'POST',
      path,
      thread: 'write',
      rule: 'threads:update',
      body: linkBody,
      bodyOptional: true,
      summary: 'Create a link that opens the thread for reading; it is shown only once',
      answers: one(ref('NewThreadLink'), 201),
      refusals: [403, 409],
      handler: create
    }),
    route({
      method: 'GET',
      path,
      thread: 'write',
      rule: 'threads:read',
      summary: 'List the caller’s links to a thread, also those that have expired',
      answers: one(shaped({ links: arrayOf(ref('ThreadLink')) })),
      handler: list
    }),
    route({
      method: 'DELETE',
      path: `${path}/{link_id}`,
      thread: 'write',
      rule: 'threads:update',
      summary: 'Revoke a link and end its streams',
      answers: success,
      refusals: [404],
      handler: revoke
    })
  ]
}
