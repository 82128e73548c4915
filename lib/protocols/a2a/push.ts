// Push notifications of Agent2Agent (A2A): the webhook of a run, in the protocol's form, to the address that came with the message.
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
/** Of a run's kwargs. */
const PUSH = 'a2a_push'

interface Told {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** Members of a run's request and of its kwargs, for a configuration as a client gives it. @throws RpcError naming the field */
export function pushIn(given: Json | undefined): { readonly body: JsonObject; readonly kwargs: JsonObject } | null {
  if (given === undefined || given === null) return null
  const refuse = (what: string) => new RpcError(INVALID_PARAMS, `configuration.taskPushNotificationConfig${what}`)
  if (!isObject(given)) throw refuse(' must be an object')
  const { url, id, token, authentication } = given
  if (typeof url !== 'string' || !/^https?:\/\//i.test(url)) throw refuse('.url must be a URL of http or https')
  const named = typeof id === 'string' && id !== '' ? id.slice(0, TEXT_MAX) : 'default'
  const { scheme, credentials } = isObject(authentication) ? authentication : {}
  const isHeader = (text: Json | undefined) =>
    text === undefined || (typeof text === 'string' && /^[\x20-\x7e]*$/.test(text) && text.length <= TEXT_MAX)
  if (![token, scheme, credentials].every(isHeader))
    throw refuse(': token and authentication must be short plain texts')
  const push = {
    id: named,
    url,
    ...(token && { token }),
    ...(scheme && { authentication: { scheme, credentials: credentials ?? '' } })
  }
  return { body: { webhook: url }, kwargs: { [PUSH]: push } }
}

/** What the runs that go on with a task inherit of its first one. */
export function pushOf({ kwargs }: Run): ReturnType<typeof pushIn> {
  return pushIn(kwargs[PUSH])
}

/** The configuration of a task, as its client is shown it; null: it has none. */
export function pushView({ run_id, kwargs }: Run): JsonObject | null {
  const push = kwargs[PUSH]
  return isObject(push) ? { taskId: run_id, ...push } : null
}

/** What is sent at the end of a run; null: it has no such configuration. Rejects when the store does. */
export async function pushed(services: Pick<Services, 'registry'>, run: Run): Promise<Told | null> {
  const push = run.kwargs[PUSH]
  if (!isObject(push)) return null
  const { token, authentication } = push
  const { scheme, credentials } = isObject(authentication) ? authentication : {}
  const all = await eventsOfRun(services, run, pieces, { filter: PART_FILTER })
  const isLong = all.reduce((sum, { json }) => sum + json.length, 0) > ARTIFACTS_MAX
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
