// Responses: a run each. Started, streamed and resumed by the number of an event, read, cancelled, deleted.
import { Failure, fail } from '../../base/errors.ts'
import { resultIn } from '../../agent/client-context.ts'
import { isInFlight, isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { type HANDLED, type Reply, requirePermission, type UserCall } from '../../http/route.ts'
import { searchParams } from '../../http/request.ts'
import { Authorizer } from '../../routes/authorization.ts'
import { refusedValue } from '../../routes/input.ts'
import { alreadyEnded } from '../../routes/run-request.ts'
import type { Services } from '../../routes/services.ts'
import { waitForEnd } from '../../routes/wait.ts'
import type { Place } from '../../run/delivery/streams.ts'
import { askedMessages } from '../../run/run-kwargs.ts'
import { PART_FILTER } from '../parts.ts'
import { begunBefore, type RequestKey, requestKeyOf } from '../repeats.ts'
import { eventsOfRun, streamRun } from '../stream.ts'
import { Tasks } from '../tasks.ts'
import { errorOf } from './errors.ts'
import { checkFields, echoOf, RESPONSE_FIELDS } from './fields.ts'
import { responseId, runIdIn, threadIdIn } from './ids.ts'
import { readItems } from './input.ts'
import { clientOutput, itemsOf } from './items.ts'
import { pageOf } from './page.ts'
import { keptOf, responseOf } from './response.ts'
import { formatIn, toolsIn } from './tools.ts'
import { isTerminal, responses, viewAfter } from './translate.ts'
import { Turns } from './turn.ts'

/** What a credential that has ended is told behind the head of an answer. */
export const REVOKED = JSON.stringify({ error: errorOf(new Failure('token_revoked')) })

export class Responses {
  readonly #services: Services
  readonly #tasks: Tasks
  readonly #turns: Turns

  constructor(services: Services) {
    this.#services = services
    this.#tasks = new Tasks(services)
    this.#turns = new Turns(services)
  }

  /** A place is reserved before the run is created: refused afterwards, the client would try again and start a second one. */
  async create(call: UserCall<JsonObject>): Promise<Reply | typeof HANDLED> {
    const { stream, background } = call.body
    checkFields(call.body, RESPONSE_FIELDS)
    checkFlag(stream, 'stream')
    checkFlag(background, 'background')
    const request = requestKeyOf(call)
    const earlier = await begunBefore(this.#services, call, request)
    if (background && !stream) {
      const shown = earlier
        ? await this.#shown(earlier)
        : responseOf(await this.#start(call, request), { status: 'queued', output: [] })
      return { json: shown }
    }
    return this.#services.registry.streams.hold(call.user.id, async (place) => {
      const run = earlier ?? (await this.#start(call, request))
      return stream ? this.#stream(call, run, place, -1) : this.#wait(call, run, place)
    })
  }

  async #start(call: UserCall<JsonObject>, request: RequestKey | null): Promise<Run> {
    const { body } = call
    const previous = await this.#previous(call)
    const threadId = previous?.thread_id ?? conversationIn(body.conversation)
    const { text, instructions = null } = body
    if (instructions !== null && typeof instructions !== 'string')
      throw refusedValue(['body', 'instructions'], 'must be a text')
    return this.#turns.start(call, {
      request,
      model: body.model,
      threadId,
      before: previous,
      input: readItems(body.input),
      field: 'input',
      extras: {
        tools: toolsIn(body.tools, body.tool_choice),
        instructions: instructions === '' ? null : instructions,
        format: askedFormat(text)
      },
      formatField: 'text',
      kept: {
        metadata: metadataIn(body.metadata),
        model: previous && keptOf(previous).model,
        previous: previous && responseId(previous),
        background: body.background === true,
        echo: echoOf(body)
      }
    })
  }

  async #previous(call: UserCall<JsonObject>): Promise<Run | null> {
    const { previous_response_id: id = null, conversation = null } = call.body
    if (id === null) return null
    const loc = ['body', 'previous_response_id']
    if (conversation !== null) throw refusedValue(loc, 'give previous_response_id or conversation, not both')
    const absent = () => refusedValue(loc, `Previous response with id '${String(id).slice(0, 64)}' not found.`)
    const runId = typeof id === 'string' ? runIdIn(id) : null
    if (runId === null) throw absent()
    const { first } = await this.#tasks.get(call, runId).catch((error: unknown) => {
      throw error instanceof Failure && error.status === 404 ? absent() : error
    })
    return first
  }

  #stream(call: UserCall, run: Run, place: Place, after: number): typeof HANDLED {
    return streamRun(this.#services, call, place, { run, ...viewAfter(after) })
  }

  #wait(call: UserCall, run: Run, place: Place): Promise<typeof HANDLED> {
    const answerOf = async (ended: Run) => JSON.stringify(await this.#shown(ended))
    return waitForEnd(this.#services, call, place, { run, isTheirs: false, revoked: REVOKED, answerOf })
  }

  /** The response as far as it is. */
  async #shown(run: Run): Promise<JsonObject> {
    const events = await eventsOfRun(this.#services, run, responses, { filter: PART_FILTER })
    const last = events.findLast(isTerminal)
    // Written by the translation.
    if (last) return (JSON.parse(String(last.json)) as { response: JsonObject }).response
    const output = events
      .filter(({ type }) => type === 'response.output_item.done')
      .map(({ json }) => (JSON.parse(String(json)) as { item: JsonObject }).item)
    return responseOf(run, { status: run.status === 'pending' ? 'queued' : 'in_progress', output })
  }

  // ------------------------------------------------------------------------------------------- one that exists

  /** @throws Failure run_not_found, also for one of somebody else */
  async #runOf(call: UserCall): Promise<Run> {
    const id = call.params.response_id!
    const runId = runIdIn(id)
    if (runId === null) throw fail('run_not_found', { id: id.slice(0, 64) })
    return (await this.#tasks.get(call, runId)).first
  }

  async get(call: UserCall): Promise<Reply | typeof HANDLED> {
    const run = await this.#runOf(call)
    const query = searchParams(call)
    if (!isTrue(query.get('stream'), 'stream')) return { json: await this.#shown(run) }
    const after = numberIn(query.get('starting_after'))
    return this.#services.registry.streams.hold(call.user.id, async (place) => this.#stream(call, run, place, after))
  }

  async cancel(call: UserCall): Promise<Reply> {
    const run = await this.#runOf(call)
    await this.#ask(call, 'update', run)
    if (isInFlight(run)) await this.#services.runs.cancel(run, 'interrupt', true).catch(alreadyEnded)
    return { json: await this.#shown((await this.#services.store.runs.get(run.run_id)) ?? run) }
  }

  /** What it has said stays in its conversation. */
  async remove(call: UserCall): Promise<Reply> {
    const run = await this.#runOf(call)
    await this.#ask(call, 'delete', run)
    if (isInFlight(run)) {
      requirePermission(call, 'runs:cancel')
      await this.#services.runs.cancel(run, 'interrupt', true).catch(alreadyEnded)
    }
    if (!(await this.#services.runs.remove(run))) throw fail('run_not_found', { id: run.run_id })
    return { json: { id: responseId(run), object: 'response', deleted: true } }
  }

  async inputItems(call: UserCall): Promise<Reply> {
    const run = await this.#runOf(call)
    const { command } = run.kwargs
    const { resume } = isObject(command) ? command : {}
    const results = Object.entries(isObject(resume) ? resume : {}).map(([call, answer]) =>
      clientOutput(call, call, resultIn(answer).content)
    )
    const items = itemsOf(askedMessages(run))
    return { json: pageOf([...results, ...items], call) }
  }

  async #ask(call: UserCall, action: string, { thread_id }: Run): Promise<void> {
    const { policy } = this.#services
    if (policy) await new Authorizer(this.#services, policy.askFor(call)).thread(action, thread_id)
  }
}

const METADATA_MAX = 16
const KEY_LENGTH_MAX = 64
const VALUE_LENGTH_MAX = 512

/** Sixteen short texts. @throws Invalid */
export function metadataIn(given: Json | undefined): JsonObject {
  if (given === undefined || given === null) return {}
  const loc = ['body', 'metadata']
  if (!isObject(given)) throw refusedValue(loc, 'must be an object')
  const entries = Object.entries(given)
  const isText = (value: Json) => typeof value === 'string' && value.length <= VALUE_LENGTH_MAX
  if (entries.length > METADATA_MAX) throw refusedValue(loc, `at most ${METADATA_MAX} keys`)
  if (!entries.every(([key, value]) => key.length <= KEY_LENGTH_MAX && isText(value)))
    throw refusedValue(loc, `keys of ${KEY_LENGTH_MAX} characters, values texts of ${VALUE_LENGTH_MAX}`)
  return given
}

/** A conversation by its id, or as an object with it; null: a new one. @throws Failure thread_not_found */
function conversationIn(given: Json | undefined): string | null {
  if (given === undefined || given === null) return null
  const id = isObject(given) ? given.id : given
  const threadId = typeof id === 'string' ? threadIdIn(id) : null
  if (threadId === null) throw fail('thread_not_found', { id: String(id).slice(0, 64) })
  return threadId
}

export function checkFlag(value: Json | undefined, field: string): void {
  if (value !== undefined && value !== null && typeof value !== 'boolean')
    throw refusedValue(['body', field], 'must be a boolean')
}

/** The form that an answer is to have; null: none. How wordy it is is the agent's affair. @throws Invalid */
function askedFormat(text: Json | undefined): JsonObject | null {
  if (text === undefined || text === null) return null
  if (!isObject(text)) throw refusedValue(['body', 'text'], 'must be an object')
  const other = Object.keys(text).find((name) => name !== 'format' && name !== 'verbosity')
  if (other !== undefined)
    throw refusedValue(['body', 'text', other.slice(0, 100)], `Unknown parameter: 'text.${other.slice(0, 100)}'`)
  return formatIn(text.format, ['body', 'text', 'format'])
}

/** @throws Invalid */
function isTrue(text: string | null, field: string): boolean {
  if (text !== null && text !== 'true' && text !== 'false')
    throw refusedValue(['query', field], 'must be true or false')
  return text === 'true'
}

/** The number of an event; -1: none. @throws Invalid */
function numberIn(text: string | null): number {
  if (text === null || text === '') return -1
  if (!/^\d{1,15}$/.test(text))
    throw refusedValue(['query', 'starting_after'], 'must be the sequence_number of an event')
  return Number(text)
}
