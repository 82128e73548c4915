// Regenerate an answer, or edit a question and run it again: what the run has to start with. Preparing writes nothing.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import * as v from 'valibot'
import { Refused } from '../base/errors.ts'
import { isObject, type JsonObject, type Message, textOf } from '../base/types.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { objectOf } from '../http/schema.ts'
import { anObject, arrayOf, one, shaped, text } from '../routes/answers.ts'
import type { Services } from '../routes/services.ts'
import { goalIn, keepsGoalInMetadata } from '../routes/run-request.ts'
import { type Entry, historyOf, isAnswer, isQuestion, runOf, type Turn, turnAt } from '../routes/turn.ts'

const name = v.pipe(v.string(), v.minLength(1), v.maxLength(256))
const regenerateBody = objectOf({ message_id: name })
const editBody = objectOf({ human_message_id: name, replacement_text: v.pipe(v.string(), v.minLength(1)) })

/** What DeerFlow's middleware appends to the id of a human message it has rewritten. */
const USER_SUFFIX = /__user$/
/** Of a question that is asked anew, what its files and references say. */
const KEPT_KWARGS = ['files', 'referenced_message_contexts']

export function replayRoutes(services: Pick<Services, 'states' | 'store' | 'config'>): Route[] {
  const { states, store, config } = services
  /** What has nothing to do with the turn that is replaced stays as it is now, though its run starts from the state before. */
  const keptFrom = ({ title, goal }: Entry, base: Entry) => ({
    ...(typeof title === 'string' && { title }),
    ...(!keepsGoalInMetadata(services) && !isDeepStrictEqual(goal ?? null, base.goal ?? null) && { goal: goal ?? null })
  })

  const regenerate = async ({ params, body, user }: UserCall<v.InferOutput<typeof regenerateBody>>) => {
    const history = await historyOf(states, params.thread_id!, user.id)
    const { messages } = history[0]
    const index = messages.findIndex(({ id }) => id === body.message_id)
    const turn = index < 0 ? await interruptedTurn(history) : turnOfAnswer(history, index)
    if (!turn) throw new Refused(404, `Message ${body.message_id} not found`)
    const input = { messages: [askedAgain(turn.human)], ...keptFrom(history[0], turn.base) }
    return { json: { ...prepared(turn, input), metadata: origin(turn, body.message_id), target_run_id: turn.runId } }
  }

  /** Of a run that was stopped before its answer stood in the state: clients have seen one all the same. */
  const interruptedTurn = async (history: readonly [Entry, ...Entry[]]): Promise<Turn | null> => {
    const { messages } = history[0]
    const question = messages.findLastIndex(isQuestion)
    const runId = runOf(history, messages[question])
    const run = runId === null ? null : await store.runs.get(runId)
    return run?.status === 'interrupted' ? turnAt(history, question) : null
  }

  const edit = async ({ params, body, user }: UserCall<v.InferOutput<typeof editBody>>) => {
    const history = await historyOf(states, params.thread_id!, user.id)
    const { messages } = history[0]
    const words = body.replacement_text.trim()
    if (words === '') throw new Refused(409, 'The new text is empty')
    const { metadata } = keepsGoalInMetadata(services) ? ((await store.threads.get(params.thread_id!)) ?? {}) : {}
    if ((goalIn(metadata) ?? goalIn(history[0])) !== null)
      throw new Refused(409, 'A question is not edited while a goal is set')
    const human = messages.findLast(isQuestion)
    if (human?.id !== body.human_message_id) throw new Refused(409, 'Only the latest question can be edited')
    if (contentOf(human) === words) throw new Refused(409, 'The text has not changed')
    const turn = turnAt(history, answerIn(history[0]))
    const run = await store.runs.get(turn.runId)
    if (run?.status !== 'success') throw new Refused(409, 'Only a turn that has succeeded can be edited')
    const id = randomUUID()
    const { title } = turn.base
    const kept = keptFrom({ ...history[0], title }, turn.base)
    const input = { messages: [edited(human, id, words)], ...kept }
    const answerId = String(turn.messages.at(-1)?.id)
    const versions = { edit_from_message_id: human.id, edit_message_id: id, edit_version_group_id: groupOf(human) }
    return {
      json: {
        ...prepared(turn, input),
        metadata: { replay_kind: 'edit', ...origin(turn, answerId), ...versions },
        target_run_id: turn.runId,
        replacement_human_message_id: id,
        source_message_ids: turn.messages.map((message) => String(message.id))
      }
    }
  }

  const path = '/api/threads/{thread_id}/runs'
  const preparing = {
    method: 'POST',
    permission: 'runs:create',
    thread: 'write',
    rule: 'threads:read',
    refusals: [404, 409],
    bodyLimit: config.server.body_bytes
  } as const
  const shape = { input: anObject, checkpoint: anObject, metadata: anObject, target_run_id: text }
  return [
    route({
      ...preparing,
      path: `${path}/regenerate/prepare`,
      summary: 'What a run starts with that answers the latest question anew',
      answers: one(shaped(shape)),
      body: regenerateBody,
      handler: regenerate
    }),
    route({
      ...preparing,
      path: `${path}/edit-regenerate/prepare`,
      summary: 'What a run starts with that answers the latest question in other words',
      answers: one(shaped({ ...shape, replacement_human_message_id: text, source_message_ids: arrayOf(text) })),
      body: editBody,
      handler: edit
    })
  ]
}

/** @throws Refused 409 unless it is the latest answer */
function turnOfAnswer(history: readonly [Entry, ...Entry[]], index: number): Turn {
  const { messages } = history[0]
  if (!isAnswer(messages[index]!)) throw new Refused(409, 'Only an answer can be regenerated')
  if (index !== messages.findLastIndex(isAnswer)) throw new Refused(409, 'Only the latest answer can be regenerated')
  return turnAt(history, index)
}

/** Index of the latest answer in words, which ends its turn. */
function answerIn({ messages }: Entry): number {
  const index = messages.findLastIndex(isAnswer)
  const { tool_calls: calls } = messages[index] ?? {}
  const isInWords = index >= 0 && contentOf(messages[index]!) !== '' && !(Array.isArray(calls) && calls.length > 0)
  if (!isInWords || index < messages.findLastIndex(isQuestion))
    throw new Refused(409, 'The turn does not end in an answer')
  return index
}

function prepared({ base }: Turn, input: object): JsonObject {
  const checkpoint = { checkpoint_ns: '', checkpoint_id: base.checkpointId, checkpoint_map: null }
  return { input: input as JsonObject, checkpoint }
}

function origin({ base, runId }: Turn, messageId: string): JsonObject {
  return {
    regenerate_from_message_id: messageId,
    regenerate_from_run_id: runId,
    regenerate_checkpoint_id: base.checkpointId
  }
}

function askedAgain({ id, name, additional_kwargs, ...rest }: JsonObject): JsonObject {
  const { hide_from_ui: _, ...kept } = isObject(additional_kwargs) ? additional_kwargs : {}
  return {
    type: 'human',
    ...(typeof id === 'string' && { id: id.replace(USER_SUFFIX, '') }),
    ...(typeof name === 'string' && { name }),
    content: [{ type: 'text', text: contentOf(rest) }],
    additional_kwargs: kept
  }
}

function edited({ additional_kwargs }: JsonObject, id: string, words: string): JsonObject {
  const kwargs = isObject(additional_kwargs) ? additional_kwargs : {}
  const kept = Object.entries(kwargs).filter(([key]) => KEPT_KWARGS.includes(key))
  return {
    type: 'human',
    id,
    content: [{ type: 'text', text: words }],
    additional_kwargs: Object.fromEntries(kept)
  }
}

/** All versions of one question have the id of the first. */
function groupOf({ id, additional_kwargs }: JsonObject): string {
  const group = isObject(additional_kwargs) ? additional_kwargs.edit_version_group_id : null
  return typeof group === 'string' ? group : String(id)
}

function contentOf({ content }: JsonObject): string {
  // A stored message: its content is a text, or a list of blocks.
  return textOf((content ?? '') as Message['content'])
}
