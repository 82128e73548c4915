// Artifacts: files below /mnt/user-data of a thread, sent so that nothing in them can run in our origin [needs N18].
import * as v from 'valibot'
import { fail, Refused } from '../base/errors.ts'
import { type Artifact, memberIn, type Unsaved } from '../files/artifacts.ts'
import { MutexBusy } from '../base/keyed-mutex.ts'
import { PathError } from '../files/paths.ts'
import { type HANDLED, type Reply, type Route, route, type UserCall } from '../http/route.ts'
import { sendRanged } from '../http/range.ts'
import { objectOf, queryBoolean } from '../http/schema.ts'
import { refuseHeldFiles } from '../thread/holds.ts'
import { int, one, partly, ranged, shaped, text } from './answers.ts'
import type { Services } from './services.ts'

const artifactQuery = objectOf({ download: v.optional(queryBoolean, 'false') })
type ArtifactQuery = v.InferOutput<typeof artifactQuery>

// Defence in depth: no type sniffing, and a sandboxed origin without scripts that may load nothing.
const SAFETY = { 'X-Content-Type-Options': 'nosniff', 'Content-Security-Policy': "sandbox; default-src 'none'" }

/** Of a file that is edited, before and after. */
const EDITED_BYTES = 2 * 1024 * 1024
const saveBody = objectOf({
  content: v.string(),
  expected_sha256: v.pipe(v.string(), v.length(64), v.regex(/^[0-9a-f]+$/))
})
/** Why a file is not saved: status and text. */
const UNSAVED: Readonly<Record<Unsaved, readonly [number, string]>> = {
  outside: [400, 'Only files below /mnt/user-data/outputs can be edited'],
  changed: [412, 'The file has changed since it was read'],
  too_large: [413, 'An edited file has at most 2 MiB'],
  not_text: [415, 'Only text files can be edited']
}

export function artifactRoutes({
  artifacts,
  config,
  store
}: Pick<Services, 'artifacts' | 'config' | 'store'>): Route[] {
  const get = async (call: UserCall<unknown, ArtifactQuery>): Promise<typeof HANDLED> => {
    const { thread_id, path } = { thread_id: call.params.thread_id!, path: call.params.path! }
    const artifact = await artifacts.open(thread_id, call.user.id, path).catch((error) => refused(error, path))
    const headers = headersOf(artifact, call.query.download)
    try {
      return await sendRanged(call, { ...artifact, headers, safety: SAFETY }, config.streams.stall_ms)
    } finally {
      await artifact.close()
    }
  }

  /** Only what its client has read last is replaced, and only while no run may write it. */
  const save = async ({ params, body, user }: UserCall<v.InferOutput<typeof saveBody>>): Promise<Reply> => {
    const { thread_id: threadId, path } = { thread_id: params.thread_id!, path: params.path! }
    if (Buffer.byteLength(body.content) > EDITED_BYTES) throw new Refused(413, 'An edited file has at most 2 MiB')
    // What stands there now would be gone.
    await refuseHeldFiles(store, threadId, user.id)
    if ((await store.runs.inFlight(threadId)).length > 0) throw fail('thread_in_flight', { id: threadId })
    const edit = { content: body.content, expected: body.expected_sha256, maxBytes: EDITED_BYTES }
    const saved = await artifacts.save(threadId, user.id, path, edit).catch((error) => refused(error, path))
    if (typeof saved !== 'string') return { json: saved }
    const [status, text] = UNSAVED[saved]
    throw new Refused(status, text)
  }

  return [
    route({
      method: 'PUT',
      path: '/api/threads/{thread_id}/artifacts/{path}',
      permission: 'threads:write',
      thread: 'write',
      tail: true,
      summary: 'Saves an edited text file, if it is still the one that was read',
      answers: one(shaped({ path: text, sha256: text, size: int })),
      refusals: [400, 403, 404, 409, 412, 413, 415],
      rule: 'threads:update',
      body: saveBody,
      // No more than other bodies: the largest of them decides how many one user may have on their way.
      bodyLimit: config.server.body_bytes,
      handler: save
    }),
    route({
      method: 'GET',
      path: '/api/threads/{thread_id}/artifacts/{path}',
      permission: 'threads:read',
      thread: 'read',
      link: 'files',
      tail: true,
      query: artifactQuery,
      rule: 'threads:read',
      summary: 'A file of the thread',
      answers: partly('*/*', { type: 'string', format: 'binary' }),
      refusals: [416, 429],
      reads: ranged,
      handler: get
    })
  ]
}

/** @throws the Failure for known problems [contract 6.2], else the error itself */
function refused(error: unknown, path: string): never {
  if (error instanceof MutexBusy) throw fail('too_many_members', null, { 'Retry-After': '5' })
  if (!(error instanceof PathError)) throw error
  const inside = memberIn(path)
  switch (error.problem) {
    case 'not_virtual':
      throw fail('artifact_path_invalid', null, SAFETY)
    case 'escapes':
      throw fail('artifact_outside', null, SAFETY)
    case 'missing':
      throw inside
        ? fail('archive_not_found', { path: inside.archive }, SAFETY)
        : fail('artifact_not_found', { path }, SAFETY)
    case 'no_member':
      throw fail('member_not_found', { member: inside?.member ?? path }, SAFETY)
    case 'not_a_file':
      throw fail('artifact_no_file', { path }, SAFETY)
    default:
      throw error
  }
}

// ------------------------------------------------------------------------------------------------- sending

function headersOf(artifact: Artifact, download: boolean): Record<string, string> {
  return {
    ...dispositionOf(artifact, download),
    'Content-Type': artifact.type,
    // Only the owner's browser may cache it.
    'Cache-Control': artifact.maxAge === 0 ? 'private, no-cache' : `private, max-age=${artifact.maxAge}`
  }
}

/** Text that is displayed needs no file name; everything else has one for saving. */
function dispositionOf({ name, isInert, isText }: Artifact, download: boolean): { 'Content-Disposition'?: string } {
  const isSaved = download || !isInert
  if (isText && !isSaved) return {}
  return { 'Content-Disposition': `${isSaved ? 'attachment' : 'inline'}; filename*=UTF-8''${extendedValue(name)}` }
}

/** Encoded as in RFC 8187, so that nothing in the text can end the value or the header. */
function extendedValue(text: string): string {
  return encodeURIComponent(text).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}
