// Browsers that are told by Web Push when an answer is done or asks: the key to subscribe with, and one's own subscriptions.
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { objectOf } from '../http/schema.ts'
import type { WebPush } from '../jobs/web-push.ts'
import { arrayOf, one, shaped, success, text, time } from './answers.ts'

const ENDPOINT_MAX = 2048
const base64url = (bytes: number) =>
  v.pipe(
    v.string(),
    v.regex(/^[A-Za-z0-9_-]+=*$/),
    v.check((key) => Buffer.from(key, 'base64url').length === bytes, `must be ${bytes} bytes in base64url`)
  )
/** As `PushSubscription.toJSON()` has it. */
const subscriptionBody = objectOf({
  endpoint: v.pipe(v.string(), v.maxLength(ENDPOINT_MAX)),
  keys: objectOf({ p256dh: base64url(65), auth: base64url(16) }),
  expirationTime: v.nullish(v.number())
})

const subscription = shaped({ id: text, host: text, created_at: time })

export function webPushRoutes({ webPush }: { readonly webPush: WebPush }): Route[] {
  const list = async ({ user }: UserCall) => ({
    json: { public_key: await webPush.publicKey(), subscriptions: await webPush.list(user.id) }
  })

  // A route that is nobody's without an account has a grant.
  const subscribe = async ({ body, grant }: UserCall<v.InferOutput<typeof subscriptionBody>>) => ({
    status: 201,
    json: await webPush.subscribe({ endpoint: body.endpoint, keys: body.keys }, grant!)
  })

  const unsubscribe = async ({ params, user }: UserCall) => {
    const id = params.subscription_id!
    if (!(await webPush.unsubscribe(id, user.id))) throw fail('push_subscription_not_found', { id })
    return { json: { success: true } }
  }

  const path = '/api/v1/auth/push'
  return [
    route({
      method: 'GET',
      path,
      rule: null,
      summary: 'The key to subscribe a browser with, and the caller’s subscriptions',
      answers: one(shaped({ public_key: text, subscriptions: arrayOf(subscription) })),
      refusals: [501],
      handler: list
    }),
    route({
      method: 'POST',
      path: `${path}/subscriptions`,
      body: subscriptionBody,
      rule: null,
      summary: 'Tell this browser when an answer is done or asks, until the session ends',
      answers: one(subscription, 201),
      refusals: [501],
      handler: subscribe
    }),
    route({
      method: 'DELETE',
      path: `${path}/subscriptions/{subscription_id}`,
      rule: null,
      summary: 'Tell a browser no longer',
      answers: success,
      refusals: [404],
      handler: unsubscribe
    })
  ]
}
