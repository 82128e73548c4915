// Conversations: threads, and the messages of their state as items.
import { randomUUID } from 'node:crypto'
import { fail } from '../../base/errors.ts'
import { KeyedMutex } from '../../base/keyed-mutex.ts'
import { isObject, type JsonObject, type Thread, timestamp } from '../../base/types.ts'
import type { Reply, UserCall } from '../../http/route.ts'
import { Authorizer } from '../../routes/authorization.ts'
import { readInput, refusedValue } from '../../routes/input.ts'
import { removeThread } from '../../routes/remove-thread.ts'
import type { Services } from '../../routes/services.ts'
import { writtenState } from '../../routes/state.ts'
import { objectsIn } from '../../base/json.ts'
import { clientCallsIn } from '../client-tools.ts'
import { refuseHeld } from '../../thread/holds.ts'
import { newThread } from '../../thread/thread.ts'
import { conversationId, threadIdIn } from './ids.ts'
import { readItems } from './input.ts'
import { itemsOf } from './items.ts'
import { listOf, pageOf } from './page.ts'
import { seconds } from './response.ts'
import { metadataIn } from './responses.ts'

/** Where a thread has the client's metadata: its own are of other APIs. */
const METADATA = 'openai_metadata'
/** Items of one request, as its clients know it. */
const ITEMS_MAX = 20
const CREATED = ['items', 'metadata']
/** Of each that fails another change was made. */
const ATTEMPTS_MAX = 100
const NEWEST = { checkpointId: null, namespace: '' }

/** The state that a change is made of. */
interface Newest {
  readonly messages: readonly JsonObject[]
  readonly id?: string
}

export class Conversations {
  readonly #services: Services
  /** A state of ours is read and written as a whole: changes of a thread, one after the other; those of other processes come between. */
  readonly #changes = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1 })

  constructor(services: Services) {
    this.#services = services
  }

  async create(call: UserCall<JsonObject>): Promise<Reply> {
    const { limits, policy } = this.#services
    const { body, user } = call
    checkNames(body, CREATED)
    const items = itemsIn(body, false)
    const thread_id = randomUUID()
    const value: JsonObject = { thread_id, metadata: { [METADATA]: metadataIn(body.metadata) } }
    if (policy) await new Authorizer(this.#services, policy.askFor(call)).ask('threads', 'create', value)
    const metadata = isObject(value.metadata) ? value.metadata : {}
    const given = { thread_id, user_id: user.id, assistant_id: null, metadata }
    const made = await limits.createThread(newThread(given, timestamp()))
    if (!made) throw fail('thread_not_found', { id: thread_id })
    try {
      if (items.length > 0) await this.#add(call, thread_id, items)
    } catch (error) {
      await removeThread(this.#services, thread_id, user.id)
      throw error
    }
    return { json: viewOf(made.thread) }
  }

  async get(call: UserCall): Promise<Reply> {
    return { json: viewOf(await this.#threadOf(call, 'read')) }
  }

  async update(call: UserCall<JsonObject>): Promise<Reply> {
    checkNames(call.body, ['metadata'])
    const { thread_id } = await this.#threadOf(call, 'update')
    const metadata = { [METADATA]: metadataIn(call.body.metadata) }
    const now = timestamp()
    const thread = await this.#services.writer.write({ name: 'thread.patch', thread_id, metadata, now })
    if (!thread) throw fail('thread_not_found', { id: thread_id })
    return { json: viewOf(thread) }
  }

  async remove(call: UserCall): Promise<Reply> {
    const { thread_id } = await this.#threadOf(call, 'delete')
    await removeThread(this.#services, thread_id, call.user.id)
    return { json: { id: conversationId(thread_id), object: 'conversation.deleted', deleted: true } }
  }

  // ---------------------------------------------------------------------------------------------------- items

  async items(call: UserCall): Promise<Reply> {
    const { thread_id } = await this.#threadOf(call, 'read')
    return { json: pageOf(await this.#itemsOf(call, thread_id), call) }
  }

  async item(call: UserCall): Promise<Reply> {
    const { thread_id } = await this.#threadOf(call, 'read')
    const id = call.params.item_id!
    const found = (await this.#itemsOf(call, thread_id)).find((one) => one.id === id)
    if (!found) throw fail('item_not_found')
    return { json: found }
  }

  async addItems(call: UserCall<JsonObject>): Promise<Reply> {
    checkNames(call.body, ['items'])
    const { thread_id } = await this.#threadOf(call, 'update')
    const messages = itemsIn(call.body, true)
    await this.#add(call, thread_id, messages)
    return { json: listOf(itemsOf(messages)) }
  }

  async removeItem(call: UserCall): Promise<Reply> {
    const thread = await this.#threadOf(call, 'delete')
    const { thread_id } = thread
    // Its earlier state would have the message still: who deletes it is not told that it is gone.
    await refuseHeld(this.#services.store, 'thread', thread_id)
    const id = call.params.item_id!
    const { isOfGraphs } = this.#services.states
    await this.#change(call, thread_id, async ({ messages: all }) => {
      const clientCalls = await clientCallsIn(this.#services, thread_id, call.user.id, all)
      const message = all.find((one) => itemsOf([one], clientCalls).some((item) => item.id === id))
      if (!message) throw fail('item_not_found')
      // No model takes a result whose call is gone.
      const calls = objectsIn(message.tool_calls).map((one) => one.id)
      const removed = all.filter((one) => one === message || (one.type === 'tool' && calls.includes(one.tool_call_id!)))
      return isOfGraphs
        ? removed.map((one) => ({ type: 'remove', id: one.id! }))
        : all.filter((one) => !removed.includes(one))
    })
    return { json: viewOf(thread) }
  }

  async #itemsOf({ user }: UserCall, threadId: string): Promise<JsonObject[]> {
    const { messages } = await this.#state(threadId)
    return itemsOf(messages, await clientCallsIn(this.#services, threadId, user.id, messages))
  }

  async #state(threadId: string): Promise<Newest> {
    const text = await this.#services.states.get(threadId, NEWEST)
    // Serialised from an object.
    const { values = null, checkpoint_id: id } = text === null ? {} : (JSON.parse(text) as JsonObject)
    const messages = isObject(values) && Array.isArray(values.messages) ? values.messages.filter(isObject) : []
    return { messages, ...(typeof id === 'string' && { id }) }
  }

  async #add(call: UserCall, threadId: string, messages: readonly JsonObject[]): Promise<void> {
    // Refused with their place, before the thread's state is looked at.
    readInput([...messages], 'items')
    // Graphs add to their messages; a state of ours gets them as they are.
    const { isOfGraphs } = this.#services.states
    await this.#change(call, threadId, (before) => (isOfGraphs ? messages : [...before.messages, ...messages]))
  }

  /** Changes the newest messages, again where another process has changed them meanwhile. */
  async #change(
    { user }: UserCall,
    threadId: string,
    changed: (newest: Newest) => readonly JsonObject[] | Promise<readonly JsonObject[]>
  ): Promise<void> {
    const { states, assistants } = this.#services
    // Which one answers is said by the first response.
    const [first] = await assistants.system(user.id)
    await this.#changes.run(threadId, async () => {
      for (let attempt = 1; ; attempt++) {
        const newest = await this.#state(threadId)
        const values = { messages: [...(await changed(newest))] }
        const expected = newest.id === undefined ? {} : { expected: newest.id }
        const written = await states.update(threadId, {
          place: NEWEST,
          values,
          asNode: null,
          user: user.id,
          ...(first && { graphId: first.graph_id }),
          ...expected
        })
        if (written.outcome !== 'conflict' || attempt === ATTEMPTS_MAX)
          return void writtenState(written, threadId, null)
      }
    })
  }

  /** @throws Failure thread_not_found, also for one of somebody else */
  async #threadOf(call: UserCall, action: string): Promise<Thread> {
    const { store, policy } = this.#services
    const id = call.params.conversation_id!
    const threadId = threadIdIn(id)
    const thread = threadId === null ? null : await store.threads.get(threadId)
    if (!thread) throw fail('thread_not_found', { id: id.slice(0, 64) })
    if (policy) await new Authorizer(this.#services, policy.askFor(call)).thread(action, thread.thread_id)
    return thread
  }
}

function viewOf({ thread_id, created_at, metadata }: Thread): JsonObject {
  const given = metadata[METADATA]
  return {
    id: conversationId(thread_id),
    object: 'conversation',
    created_at: seconds(created_at),
    metadata: isObject(given) ? given : {}
  }
}

/** @throws Invalid */
function itemsIn({ items }: JsonObject, isRequired: boolean): JsonObject[] {
  const isAbsent = items === undefined || items === null || (Array.isArray(items) && items.length === 0)
  if (isAbsent && !isRequired) return []
  const loc = ['body', 'items']
  const { messages, outputs } = readItems(items, loc)
  if (Array.isArray(items) && items.length > ITEMS_MAX) throw refusedValue(loc, `at most ${ITEMS_MAX} at a time`)
  const [output] = outputs.keys()
  if (output !== undefined)
    throw refusedValue(loc, `No tool call found for function call output with call_id ${output}.`)
  return [...messages]
}

function checkNames(body: JsonObject, known: readonly string[]): void {
  const other = Object.keys(body).find((name) => !known.includes(name))
  if (other !== undefined)
    throw refusedValue(['body', other.slice(0, 100)], `Unknown parameter: '${other.slice(0, 100)}'`)
}
