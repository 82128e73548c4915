// Parses join requests: who reads, where to resume, which modes, and whether to stream.
import type { Call } from '../http/route.ts'
import { acceptedTypes, listIn, searchParams } from '../http/request.ts'
import { openStream } from '../http/streaming-response.ts'
import type { Reader } from '../run/delivery/credential-revalidator.ts'
import { type Filter, filterOf } from '../run/log/filter.ts'
import type { StreamWriter } from '../base/stream-writer.ts'
import type { Services } from './services.ts'

/** The position to resume after: a header, or a query parameter for clients that cannot set headers. */
export function positionText(call: Call): string | undefined {
  const header = call.req.headers['last-event-id']
  if (typeof header === 'string') return header
  return searchParams(call).get('last_event_id') ?? undefined
}

/** What a link shows of a run: its conversation, and nothing of how it was made. */
const MODES_OF_LINK: readonly string[] = ['values', 'messages-tuple', 'messages', 'updates', 'custom', 'lifecycle']
const UNASKED_OF_LINK: readonly string[] = ['values', 'messages-tuple', 'updates', 'custom']

/** Stream modes in the query; null: none, and those of the run count, but for who reads by a link. */
export function modesIn(call: Call): readonly string[] | null {
  const modes = listIn(call, 'stream_mode')
  if (!call.grant?.link) return modes
  return modes?.filter((mode) => MODES_OF_LINK.includes(mode)) ?? UNASKED_OF_LINK
}

/** Which kinds of frames who asks may be shown; null: all. */
export function kindsFor({ grant }: Pick<Call, 'grant'>): Filter | null {
  return grant?.link ? filterOf(MODES_OF_LINK.filter((mode) => mode !== 'messages')) : null
}

/** The query of the Location header: reconnecting clients drop their own query, or append it again. */
export function filterQuery(call: Call): string {
  const query = new URLSearchParams()
  for (const mode of new Set(modesIn(call))) query.append('stream_mode', mode)
  if (wantsSnapshot(call)) query.set('mode', 'snapshot')
  if (endsByLeaving(call)) query.set(ENDS, '1')
  return query.size > 0 ? `?${query}` : ''
}

const ENDS = 'cancel_on_disconnect'

/**
 * Whether to cancel the run when this reader disconnects. Only for API tokens: with a session any web page could trigger it. And not for
 * HEAD, which reads nothing that it could leave.
 */
export function endsByLeaving(call: Call): boolean {
  const { grant, req } = call
  const mayCancel = grant?.kind === 'token' && grant.permissions?.has('runs:cancel') && req.method !== 'HEAD'
  return mayCancel === true && ['1', 'true'].includes(searchParams(call).get(ENDS) ?? '')
}

/** Start with a snapshot instead of the first frame. */
export function wantsSnapshot(call: Call): boolean {
  return searchParams(call).get('mode') === 'snapshot'
}

/**
 * Whether to answer with a stream: if Accept names one or is missing, or for a position or a snapshot. LangGraph's
 * `runs.join` accepts only JSON and gets the final values.
 */
export function wantsStream(call: Call): boolean {
  const isForStreams = positionText(call) !== undefined || wantsSnapshot(call)
  return call.req.headers.accept === undefined || acceptedTypes(call.req).includes('text/event-stream') || isForStreams
}

/** Opens an event stream. Its head says how often heartbeats come, so that clients know when it is dead. */
export function openEvents(
  { config }: Pick<Services, 'config'>,
  call: Call,
  headers: Readonly<Record<string, string>> = {}
): StreamWriter {
  return openStream(call, { headers: { ...headers, 'X-Heartbeat-Ms': String(config.streams.heartbeat_ms) } })
}

/** Who reads a stream; streams are reset when the credential is revoked. */
export function readerOf(services: Pick<Services, 'isValid'>, { user, grant, payer }: Call): Reader {
  const viewer = grant?.link?.viewer
  return {
    userId: user?.id ?? null,
    payer,
    credential: grant?.digest ?? null,
    ...(viewer && { viewer: { userId: viewer.userId, credential: viewer.digest } }),
    isValid: async () => grant === null || services.isValid(grant)
  }
}
