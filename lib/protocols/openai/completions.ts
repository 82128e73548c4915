// Chat completions: a run each, on a thread that goes with it; with `X-Thread-Id` on one that stays and continues.
import { type Failure, Invalid, Refused } from '../../base/errors.ts'
import { isObject, type JsonObject, type Run } from '../../base/types.ts'
import type { HANDLED, Reply, UserCall } from '../../http/route.ts'
import { badId, isId } from '../../http/schema.ts'
import { refusedValue } from '../../routes/input.ts'
import type { Services } from '../../routes/services.ts'
import { waitForEnd } from '../../routes/wait.ts'
import type { Place } from '../../run/delivery/streams.ts'
import { PART_FILTER } from '../parts.ts'
import { begunBefore, type RequestKey, requestKeyOf } from '../repeats.ts'
import { eventsOfRun, streamRun } from '../stream.ts'
import { newestRuns } from '../threads.ts'
import {
  allChunks,
  chunkEvents,
  chunkEventsWithUsage,
  type CompletionChunk,
  completions,
  DONE,
  headOf
} from './chunks.ts'
import { errorOf } from './errors.ts'
import { checkFields, COMPLETION_FIELDS } from './fields.ts'
import { type Input, readChat } from './input.ts'
import { checkFlag, metadataIn, REVOKED } from './responses.ts'
import { formatIn, toolsIn } from './tools.ts'
import { Turns } from './turn.ts'

const THREAD = 'X-Thread-Id'

export class Completions {
  readonly #services: Services
  readonly #turns: Turns

  constructor(services: Services) {
    this.#services = services
    this.#turns = new Turns(services)
  }

  async create(call: UserCall<JsonObject>): Promise<Reply | typeof HANDLED> {
    const { stream } = call.body
    checkFields(call.body, COMPLETION_FIELDS)
    checkFlag(stream, 'stream')
    return this.#services.registry.streams.hold(call.user.id, async (place) => {
      const threadId = threadIn(call)
      const request = requestKeyOf(call, [call.body, threadId])
      const run = (await begunBefore(this.#services, call, request)) ?? (await this.#start(call, threadId, request))
      const isTemporary = threadId === null
      // Until its answer is sent; it may take long.
      if (isTemporary) call.res.once('close', this.#services.removals.hold(run.thread_id, true))
      return stream ? this.#stream(call, run, place, isTemporary) : this.#wait(call, run, place, isTemporary)
    })
  }

  async #start(call: UserCall<JsonObject>, threadId: string | null, request: RequestKey | null): Promise<Run> {
    const { body } = call
    const all = readChat(body.messages)
    return this.#turns.start(call, {
      request,
      model: body.model,
      threadId,
      before: null,
      input: threadId === null ? all : await this.#newOf(threadId, body, all),
      field: 'messages',
      extras: {
        tools: toolsIn(body.tools, body.tool_choice),
        instructions: null,
        format: formatIn(body.response_format, ['body', 'response_format'])
      },
      formatField: 'response_format',
      kept: { metadata: metadataIn(body.metadata), model: null, previous: null, background: false, echo: {} },
      isTemporary: threadId === null,
      creates: true
    })
  }

  /** A lasting thread has what was said: clients send all of it again, and what follows the last answer is new. */
  async #newOf(threadId: string, { messages }: JsonObject, all: Input): Promise<Input> {
    const [newest] = await newestRuns(this.#services, threadId)
    if (!newest || !Array.isArray(messages)) return all
    const last = messages.findLastIndex((one) => isObject(one) && one.role === 'assistant')
    if (last < 0) return all
    const fresh = messages.slice(last + 1)
    if (fresh.length === 0) throw refusedValue(['body', 'messages'], 'nothing follows the last answer')
    return readChat(fresh)
  }

  #stream(call: UserCall<JsonObject>, run: Run, place: Place, isCreator: boolean): typeof HANDLED {
    const { stream_options: options } = call.body
    const withUsage = isObject(options) && options.include_usage === true
    return streamRun(this.#services, call, place, {
      run,
      translation: completions,
      encoding: withUsage ? chunkEventsWithUsage : chunkEvents,
      selection: () => allChunks,
      headers: headersOf(run),
      last: DONE,
      isCreator
    })
  }

  #wait(call: UserCall, run: Run, place: Place, isTheirs: boolean): Promise<typeof HANDLED> {
    const answerOf = async (ended: Run) => {
      const chunks = await eventsOfRun(this.#services, ended, completions, { filter: PART_FILTER })
      const error = chunks.at(-1)?.error ?? null
      return error === null ? JSON.stringify(completionOf(ended, chunks)) : failed(error)
    }
    return waitForEnd(this.#services, call, place, {
      run,
      headers: headersOf(run),
      isTheirs,
      revoked: REVOKED,
      answerOf
    })
  }
}

function headersOf({ thread_id }: Run): Record<string, string> {
  return { [THREAD]: thread_id }
}

/** null: a thread for this request alone. @throws Invalid */
function threadIn({ req }: UserCall): string | null {
  const given = req.headers[THREAD.toLowerCase()]
  if (typeof given !== 'string' || given === '') return null
  if (!isId(given)) throw new Invalid([badId(['header', THREAD])])
  return given
}

/** A client that took it for an answer would look for its choices, and one that asked again would begin another run. */
function failed(error: string): { failure: Failure; json: string } {
  const failure = new Refused(500, error, { 'X-Should-Retry': 'false' })
  return { failure, json: JSON.stringify({ error: errorOf(failure) }) }
}

/** The chunks as one answer. */
function completionOf(run: Run, chunks: readonly CompletionChunk[]): JsonObject {
  const textsOf = (name: string) => chunks.map(({ delta }) => delta[name] ?? '').join('')
  const last = chunks.at(-1)
  const calls = chunks.flatMap(({ delta }) => (Array.isArray(delta.tool_calls) ? delta.tool_calls : []))
  const content = textsOf('content')
  const reasoning = textsOf('reasoning_content')
  const message = {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls.map((one) => (isObject(one) ? withoutIndex(one) : one)) })
  }
  const choices = [{ index: 0, message, logprobs: null, finish_reason: last?.finish ?? 'stop' }]
  return { ...headOf(run, 'chat.completion'), choices, usage: last?.usage ?? null }
}

function withoutIndex({ index: _, ...call }: JsonObject): JsonObject {
  return call
}
