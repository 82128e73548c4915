// What a run has changed in its thread's files: recorded among its events before it ends, once an attempt.
import * as v from 'valibot'
import { CHANGES_EVENT } from '../files/changes.ts'
import { isObject, type JsonObject } from '../base/types.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { objectOf, queryBoolean } from '../http/schema.ts'
import { anObject, arrayOf, int, mapOf, one, shaped, yesNo } from '../routes/answers.ts'
import type { Services } from '../routes/services.ts'

const changesQuery = objectOf({
  include_files: v.optional(queryBoolean, 'true'),
  include_diff: v.optional(queryBoolean, 'true')
})
/** More often than a run is begun. */
const ATTEMPTS_MAX = 100
const NONE = { created: 0, modified: 0, deleted: 0, symlink_created: 0, additions: 0, deletions: 0 }

export function workspaceChangeRoutes({ store }: Pick<Services, 'store'>): Route[] {
  const changes = async ({ params, query }: UserCall<unknown, v.InferOutput<typeof changesQuery>>) => {
    const page = { types: [CHANGES_EVENT], after: 0, limit: ATTEMPTS_MAX }
    const events = await store.events.listEvents(params.thread_id!, params.run_id!, page)
    // Written by files/changes.ts.
    const attempts = events.flatMap(({ content }) => (isObject(content) ? [content as unknown as Recorded] : []))
    const files = filesOf(attempts)
    const shown = query.include_diff ? files : files.map((file) => ({ ...file, diff: '' }))
    const last = attempts.at(-1)
    return {
      json: {
        available: last !== undefined,
        version: 1,
        summary: attempts.length === 1 ? last!.summary : summaryOf(attempts, files),
        files: query.include_files ? shown : [],
        limits: last?.limits ?? {}
      }
    }
  }

  return [
    route({
      method: 'GET',
      path: '/api/threads/{thread_id}/runs/{run_id}/workspace-changes',
      permission: 'threads:read',
      thread: 'read',
      rule: 'threads:read',
      query: changesQuery,
      summary: "What a run has changed in the thread's workspace and outputs",
      answers: one(
        shaped({
          available: yesNo,
          version: int,
          summary: mapOf({ type: ['integer', 'boolean'] }),
          files: arrayOf(anObject),
          limits: anObject
        })
      ),
      handler: changes
    })
  ]
}

interface Recorded {
  readonly summary: JsonObject
  readonly files: readonly Change[]
  readonly limits: JsonObject
}

type Change = JsonObject & { readonly path: string; readonly status: keyof typeof NONE }

/** By path; of one that several attempts have changed, from what the first found to what the last has left. */
function filesOf(attempts: readonly Recorded[]): Change[] {
  const files = new Map<string, Change>()
  for (const file of attempts.flatMap((one) => one.files)) {
    const { path } = file
    const earlier = files.get(path)
    if (!earlier) files.set(path, file)
    else if (earlier.status === 'created' && file.status === 'deleted') files.delete(path)
    else files.set(path, sinceEarlier(earlier, file))
  }
  return [...files.values()].sort((one, other) => (one.path < other.path ? -1 : 1))
}

function sinceEarlier(earlier: Change, file: Change): Change {
  const { size_before = null, sha256_before = null, symlink_target_before = null } = earlier
  const status =
    earlier.status === 'created'
      ? 'created'
      : earlier.status === 'deleted' && file.status === 'created'
        ? 'modified'
        : file.status
  return { ...file, status, size_before, sha256_before, symlink_target_before }
}

function summaryOf(attempts: readonly Recorded[], files: readonly Change[]): JsonObject {
  const counts = { ...NONE }
  for (const { status } of files) counts[status]++
  for (const { summary } of attempts) {
    counts.additions += Number(summary.additions)
    counts.deletions += Number(summary.deletions)
  }
  return { ...counts, truncated: attempts.some(({ summary }) => summary.truncated === true) }
}
