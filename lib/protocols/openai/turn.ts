// A turn of a conversation: what a request adds to its thread becomes a run. Behind calls of the client's tools come their results.
import { refusedValue } from '../../routes/input.ts'
import type { Services } from '../../routes/services.ts'
import type { UserCall } from '../../http/route.ts'
import { isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { answerOf, type ClientResult } from '../../agent/client-context.ts'
import { clientCallsAsked, openResultsIn, resultsIn } from '../client-tools.ts'
import type { RequestKey } from '../repeats.ts'
import { asks, Tasks } from '../tasks.ts'
import { newestRuns } from '../threads.ts'
import type { Input } from './input.ts'
import { type Kept, KEPT } from './response.ts'
import { chosen } from './models.ts'
import { type Extras, placed } from './tools.ts'

interface Turn {
  readonly model: Json | undefined
  /** null: a new one. */
  readonly threadId: string | null
  /** The turn before it; null: the newest of the thread, if there is one. */
  readonly before: Run | null
  readonly input: Input
  /** The field of the input. */
  readonly field: 'input' | 'messages'
  readonly extras: Extras
  readonly formatField: string
  readonly kept: Omit<Kept, 'answers'>
  readonly isTemporary?: boolean
  readonly creates?: boolean
  /** Sent again, it is the same run. */
  readonly request: RequestKey | null
}

export class Turns {
  readonly #services: Services
  readonly #tasks: Tasks

  constructor(services: Services) {
    this.#services = services
    this.#tasks = new Tasks(services)
  }

  /** @throws Failure as the routes of runs; Invalid naming the field */
  async start(call: UserCall, turn: Turn): Promise<Run> {
    const { threadId, kept, isTemporary = false, creates = false } = turn
    const model = await chosen(this.#services, call.user.id, turn.model)
    const before = turn.before ?? (threadId === null ? null : await this.#newestOf(threadId))
    const assistant = model.assistant ?? (turn.model === undefined ? (before?.assistant_id ?? null) : null)
    const extras = await placed(this.#services, assistant, call.user.id, turn.extras, turn.formatField)
    await this.#checkFiles(call, turn)
    const asked = await this.#asked(turn, before)
    const base = turn.before && (await this.#baseOf(turn.before))
    const input = asked.input && { ...asked.input, ...extras.input }
    const answers = [...turn.input.outputs.keys(), ...callsIn(turn.input)]
    return this.#tasks.start(call, {
      assistant,
      threadId,
      isTemporary,
      creates,
      request: turn.request,
      body: {
        ...(asked.resume === undefined ? { input: input ?? null } : { command: { resume: asked.resume } }),
        context: { ...extras.context, ...(model.modelName !== null && { model_name: model.modelName }) },
        ...(base && { checkpoint_id: base }),
        ...(isTemporary && { on_disconnect: 'cancel' }),
        // A number of an event never names two.
        durability: 'sync'
      },
      kwargs: { [KEPT]: { ...kept, model: nameOf(turn.model, kept.model), answers } }
    })
  }

  async #newestOf(threadId: string): Promise<Run | null> {
    const [newest] = await newestRuns(this.#services, threadId)
    return newest ?? null
  }

  /** The state that an older turn has left; null: it is the newest. */
  async #baseOf(run: Run): Promise<string | null> {
    const { thread_id, ordinal, final_checkpoint_id } = run
    if ((await this.#services.store.runs.after(thread_id, ordinal)) === null) return null
    if (final_checkpoint_id !== null) return final_checkpoint_id
    throw refusedValue(['body', 'previous_response_id'], 'that response has left nothing to go on from')
  }

  /** Results alone resume the run that waits for them; beside messages they take the place of its questions. */
  async #asked(
    { input, field }: Turn,
    before: Run | null
  ): Promise<{ readonly resume?: JsonObject; readonly input?: JsonObject }> {
    const { messages, outputs } = input
    const open = before && asks(before) ? clientCallsAsked(await this.#tasks.questions(before)) : []
    const left = open.find((id) => !outputs.has(id))
    if (left !== undefined) throw refusedValue(['body', field], `No tool output found for function call ${left}.`)
    const results = open.length === 0 && before ? await this.#openResults(before, outputs) : []
    if (results.length > 0 && results.length === outputs.size) return { input: { messages: [...results, ...messages] } }
    const unknown = [...outputs.keys()].find((id) => !open.includes(id))
    if (unknown !== undefined)
      throw refusedValue(['body', field], `No tool call found for function call output with call_id ${unknown}.`)
    const resume = Object.fromEntries([...outputs].map(([id, result]) => [id, answerOf(result)]))
    if (messages.length === 0 && outputs.size > 0) return { resume }
    if (outputs.size === 0) return { input: { messages: [...messages] } }
    return { input: { messages: [...(await this.#results(before!, outputs)), ...messages] } }
  }

  async #results(before: Run, outputs: ReadonlyMap<string, ClientResult>): Promise<JsonObject[]> {
    return resultsIn(await this.#stored(before), outputs)
  }

  /** A graph ends with calls of its client's tools, and asks nothing. */
  async #openResults(before: Run, outputs: ReadonlyMap<string, ClientResult>): Promise<JsonObject[]> {
    const isOne = this.#services.states.isOfGraphs && outputs.size > 0
    return isOne ? openResultsIn(await this.#stored(before), outputs) : []
  }

  async #stored(before: Run): Promise<JsonObject[]> {
    const values = await this.#services.states.values(before.thread_id, before.final_checkpoint_id)
    const state = values === null ? {} : (JSON.parse(values.json) as JsonObject)
    return Array.isArray(state.messages) ? state.messages.filter(isObject) : []
  }

  async #checkFiles({ user }: UserCall, { threadId, input }: Turn): Promise<void> {
    if (input.files.length === 0) return
    const there = threadId === null ? [] : await this.#services.uploads.list(threadId, user.id)
    const absent = input.files.find(({ name }) => !there.some(({ filename }) => filename === name))
    if (absent) throw refusedValue(absent.loc, 'there is no such file in this conversation')
  }
}

function nameOf(asked: Json | undefined, known: string | null): string | null {
  return typeof asked === 'string' ? asked : known
}

/** Calls that a request sends again with their results. */
function callsIn({ messages }: Input): string[] {
  return messages.flatMap(({ type, tool_call_id }) => (type === 'tool' ? [String(tool_call_id)] : []))
}
