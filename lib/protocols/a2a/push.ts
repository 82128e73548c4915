// Push notifications of Agent2Agent (A2A): the webhook of a run, in the protocol's form, to the address that came with the message; and how a
// configuration is read.
import type { Notice } from '../../jobs/webhooks.ts'
import type { Services } from '../../routes/services.ts'
import { isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { INVALID_PARAMS, RpcError } from '../json-rpc.ts'
import { PART_FILTER } from '../parts.ts'
import { pieces } from '../pieces.ts'
import { eventsOfRun } from '../stream.ts'
import { onlyOf, taskIdOf } from '../tasks.ts'
import { contextOf, taskView } from './encoding.ts'

/** Artifacts of a notification, in characters; above it only the status is sent. */
const ARTIFACTS_MAX = 4 << 20
const TEXT_MAX = 1024
const URL_MAX = 2048
const ID = /^[\w.:-]{0,128}$/
const DEFAULT_ID = 'default'
/** Of a run's kwargs. */
const PUSH = 'a2a_push'

/** A configuration as it is kept. */
export interface PushConfig extends JsonObject {
  readonly id: string
  readonly url: string
}

/**
 * `where`: what it is a member of, for refusals.
 * @throws RpcError naming the field
 */
export function pushConfigIn(given: Json | undefined, where: string): PushConfig {
  const refuse = (what: string) => new RpcError(INVALID_PARAMS, `${where}${what}`)
  if (!isObject(given)) throw refuse(' must be an object')
  const { url, id, token, authentication } = given
  if (typeof url !== 'string' || !/^https?:\/\//i.test(url) || url.length > URL_MAX || !URL.canParse(url))
    throw refuse('.url must be a URL of http or https')
  if (id !== undefined && (typeof id !== 'string' || !ID.test(id)))
    throw refuse('.id must be at most 128 letters, digits and . _ : -')
  const { scheme, credentials } = isObject(authentication) ? authentication : {}
  const isHeader = (text: Json | undefined) =>
    text === undefined || (typeof text === 'string' && /^[\x20-\x7e]*$/.test(text) && text.length <= TEXT_MAX)
  if (![token, scheme, credentials].every(isHeader))
    throw refuse(': token and authentication must be short plain texts')
  return {
    id: id || DEFAULT_ID,
    url,
    ...(token && { token }),
    ...(scheme && { authentication: { scheme, credentials: credentials ?? '' } })
  }
}

/** Members of a run's request and of its kwargs, for the configuration of a message. @throws RpcError naming the field */
export function pushIn(given: Json | undefined): { readonly body: JsonObject; readonly kwargs: JsonObject } | null {
  if (given === undefined || given === null) return null
  const push = pushConfigIn(given, 'configuration.taskPushNotificationConfig')
  return { body: { webhook: push.url }, kwargs: { [PUSH]: push } }
}

/** What the runs that go on with a task inherit of its first one. */
export function pushOf({ kwargs }: Run): ReturnType<typeof pushIn> {
  return pushIn(kwargs[PUSH])
}

/** The configuration that came with the message of a task's first run; null: none. */
export function inlineConfig({ kwargs }: Run): PushConfig | null {
  const push = kwargs[PUSH]
  // Written by `pushIn`.
  return isObject(push) ? (push as PushConfig) : null
}

/** By which the job of a configuration that was set later is found. */
export function pushKey(taskId: string, { id }: Pick<PushConfig, 'id'>): string {
  return `${taskId}/${id}`
}

type PushServices = Pick<Services, 'registry'> & {
  readonly store: { readonly jobs: Pick<Services['store']['jobs'], 'get'> }
}

/** What is sent at the end of a run; null: it has no such configuration, `none`: it was changed or deleted since. Rejects when the store does. */
export async function pushed({ registry, store }: PushServices, run: Run): Promise<Notice | 'none' | null> {
  const config = inlineConfig(run)
  if (config === null) return null
  if (await store.jobs.get('push', pushKey(taskIdOf(run), config))) return 'none'
  return noticeOf({ registry }, run, config)
}

/** The task as the end of one of its runs leaves it. Rejects when the store does. */
export async function noticeOf(services: Pick<Services, 'registry'>, run: Run, config: PushConfig): Promise<Notice> {
  const { token, authentication } = config
  const { scheme, credentials } = isObject(authentication) ? authentication : {}
  const all = await eventsOfRun(services, run, pieces, { filter: PART_FILTER })
  const isLong = all.reduce((sum, { json }) => sum + String(json).length, 0) > ARTIFACTS_MAX
  const shown = isLong ? all.slice(-1) : all
  const task = { ...taskView(onlyOf(run), [run], { pieces: shown }), id: taskIdOf(run), contextId: contextOf(run) }
  return {
    body: JSON.stringify({ task }),
    headers: {
      ...(typeof token === 'string' && { 'x-a2a-notification-token': token }),
      ...(typeof scheme === 'string' && { authorization: `${scheme} ${String(credentials)}`.trim() })
    }
  }
}
