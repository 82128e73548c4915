// Artifacts: files below /mnt/user-data of a thread, sent so that nothing in them can run in our origin [needs N18].
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { type Artifact, memberIn } from '../files/artifacts.ts'
import { MutexBusy } from '../base/keyed-mutex.ts'
import { PathError } from '../files/paths.ts'
import { type HANDLED, type Route, route, type UserCall } from '../http/route.ts'
import { sendRanged } from '../http/range.ts'
import { objectOf, queryBoolean } from '../http/schema.ts'
import { partly, ranged } from './answers.ts'
import type { Services } from './services.ts'

const artifactQuery = objectOf({ download: v.optional(queryBoolean, 'false') })
type ArtifactQuery = v.InferOutput<typeof artifactQuery>

// Defence in depth: no type sniffing, and a sandboxed origin without scripts that may load nothing.
const SAFETY = { 'X-Content-Type-Options': 'nosniff', 'Content-Security-Policy': "sandbox; default-src 'none'" }

export function artifactRoutes({ artifacts, config }: Pick<Services, 'artifacts' | 'config'>): Route[] {
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

  return [
    route({
      method: 'GET',
      path: '/api/threads/{thread_id}/artifacts/{path}',
      permission: 'threads:read',
      thread: 'read',
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
