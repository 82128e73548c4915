// Branches: a thread of its own that goes on after one turn of another.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { Refused } from '../base/errors.ts'
import { type JsonObject, timestamp } from '../base/types.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { listOf, objectOf } from '../http/schema.ts'
import { one, shaped, text } from '../routes/answers.ts'
import { keepsGoalInMetadata } from '../routes/run-request.ts'
import { removeThread } from '../routes/remove-thread.ts'
import type { Services } from '../routes/services.ts'
import { writtenState } from '../routes/state.ts'
import { inheritedMetadata, newThread } from '../thread/thread.ts'
import { askedBefore, type Entry, historyOf, isAnswer } from '../routes/turn.ts'

const name = v.pipe(v.string(), v.minLength(1), v.maxLength(256))
const branchBody = objectOf({
  message_id: name,
  message_ids: v.nullish(listOf(name, 1000), []),
  title: v.nullish(v.pipe(v.string(), v.maxLength(256)))
})
const PREFIX = /^(?:Branch:\s*)+/

export function branchRoutes(services: Services): Route[] {
  const { states, store, limits, paths, uploads } = services

  const branch = async ({ params, body, user }: UserCall<v.InferOutput<typeof branchBody>>) => {
    const parentId = params.thread_id!
    const parent = await store.threads.get(parentId)
    if (!parent) throw new Refused(404, `Thread ${parentId} not found`)
    if (parent.metadata.deerflow_sidecar) throw new Refused(409, 'A side conversation has no branches')
    const history = await historyOf(states, parentId, user.id)
    const { entry, isNewest } = endOf(history, [body.message_id, ...(body.message_ids ?? [])])
    const threadId = randomUUID()
    const metadata = {
      ...inheritedMetadata(parent),
      deerflow_branch: true,
      branch_parent_thread_id: parentId,
      branch_parent_checkpoint_id: entry.checkpointId,
      branch_parent_message_id: body.message_id,
      branch_created_at: timestamp()
    }
    const given = { thread_id: threadId, user_id: user.id, assistant_id: parent.assistant_id, metadata }
    const made = await limits.createThread(newThread(given, timestamp()))
    if (!made) throw new Refused(404, `Thread ${parentId} not found`)
    try {
      await states.copy(parentId, threadId)
      const title = titleOf(body.title ?? null, parent.display_name, parent.metadata.deerflow_branch === true)
      // Its newest checkpoint is the turn's end, whatever followed there.
      const place = { checkpointId: entry.checkpointId, namespace: '' }
      const goal = keepsGoalInMetadata(services) ? undefined : history[0].goal
      const values: JsonObject = {
        ...(title !== null && { title }),
        ...(goal !== undefined && { goal })
      }
      const change = { place, values, asNode: null, user: user.id }
      writtenState(await states.update(threadId, change), threadId, entry.checkpointId)
    } catch (error) {
      await removeThread(services, threadId, user.id)
      throw error
    }
    const cloned = isNewest ? await cloneFiles(parentId, threadId, user.id) : 'skipped_historical_turn'
    return {
      json: {
        thread_id: threadId,
        parent_thread_id: parentId,
        parent_checkpoint_id: entry.checkpointId,
        branched_from_message_id: body.message_id,
        workspace_clone_mode: cloned,
        // Its messages are in its state; rows of the parent's runs stay the parent's.
        history_seed_mode: 'skipped_empty'
      }
    }
  }

  const cloneFiles = async (parentId: string, threadId: string, userId: string): Promise<string> => {
    try {
      if (!(await uploads.mayCopy(parentId, userId))) return 'failed'
      return (await paths.copyThread(parentId, threadId, userId)) ? 'current_thread_best_effort' : 'not_found'
    } catch (error) {
      services.log.warn({ err: error, thread_id: threadId }, 'the files of a thread could not be copied to its branch')
      return 'failed'
    }
  }

  return [
    route({
      method: 'POST',
      path: '/api/threads/{thread_id}/branches',
      permission: 'threads:write',
      thread: 'write',
      rule: 'threads:read',
      summary: 'A new thread that goes on after a turn of this one',
      answers: one(
        shaped({
          thread_id: text,
          parent_thread_id: text,
          parent_checkpoint_id: text,
          branched_from_message_id: text,
          workspace_clone_mode: text,
          history_seed_mode: text
        })
      ),
      refusals: [404, 409],
      body: branchBody,
      handler: branch
    })
  ]
}

/**
 * The checkpoint at the end of the turn that these answers belong to.
 * @throws Refused 409 when there is none
 */
function endOf(history: readonly [Entry, ...Entry[]], ids: readonly string[]): { entry: Entry; isNewest: boolean } {
  const { messages } = history[0]
  const places = ids.map((id) => messages.findIndex((one) => one.id === id && one.type === 'ai'))
  if (places.includes(-1)) throw new Refused(409, 'A message of the turn is not an answer in this thread')
  const last = Math.max(...places)
  const next = messages.findIndex((one, at) => at > last && one.type === 'human')
  const end = next < 0 ? messages.length : next
  // A turn without a human message or a run cannot be gone on from.
  askedBefore(history, messages.slice(0, end).findLastIndex(isAnswer))
  const entry = history.find(
    (one) => one.messages.length === end && one.messages.every(({ id }, at) => messages[at]?.id === id)
  )
  if (!entry) throw new Refused(409, 'There is no checkpoint at the end of this turn')
  return { entry, isNewest: next < 0 }
}

/** null: none. */
function titleOf(given: string | null, parent: string | null, isBranch: boolean): string | null {
  return given ?? (isBranch ? (parent?.replace(PREFIX, '') ?? null) : parent)
}
