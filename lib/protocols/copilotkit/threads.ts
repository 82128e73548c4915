// Threads as CopilotKit's pages list, rename, archive and delete them.
import { fail } from '../../base/errors.ts'
import { textOr } from '../../base/json.ts'
import { type JsonObject, type Thread, timestamp } from '../../base/types.ts'
import type { UserCall } from '../../http/route.ts'
import { holds } from '../../routes/authorization.ts'
import { removeThread } from '../../routes/remove-thread.ts'
import type { Services } from '../../routes/services.ts'
import { writtenState } from '../../routes/state.ts'
import { PROTOCOL } from '../ag-ui/index.ts'
import { THREAD_NAME } from '../ag-ui/translate.ts'
import { threadIdOf, visibleThread } from '../threads.ts'

/** A thread as its client's list has it. */
interface ListedThread {
  readonly id: string
  readonly organizationId: string
  readonly agentId: string
  readonly createdById: string
  readonly name: string | null
  readonly archived: boolean
  readonly createdAt: string
  readonly updatedAt: string
}

/** Which threads of an agent. */
interface Wanted {
  readonly agentId: string
  readonly includeArchived: boolean
  readonly limit: number
  /** How many of the caller's threads were looked at for the pages before. */
  readonly cursor: number
}

/** What of a thread is changed; absent: not that. */
interface ThreadChange {
  readonly name?: string | undefined
  readonly archived?: boolean | undefined
}

/** In a thread's metadata. */
const ARCHIVED = 'archived'
/** Threads read at once, and looked at for one page: of many that are another agent's a page may have few. */
const READ_MAX = 100
const LOOKED_AT_MAX = 1000

export class CopilotThreads {
  readonly #services: Services

  constructor(services: Services) {
    this.#services = services
  }

  /** Newest first. */
  async list(call: UserCall, wanted: Wanted): Promise<{ threads: ListedThread[]; nextCursor: string | null }> {
    const threads: ListedThread[] = []
    const allowed = await this.#allowed(call, wanted)
    const first = await this.#firstAgentOf(call)
    let at = wanted.cursor
    while (at < wanted.cursor + LOOKED_AT_MAX) {
      const query = { limit: READ_MAX, offset: at, sortBy: 'updated_at', sortOrder: 'desc' } as const
      const page = await this.#services.store.threads.search(query)
      for (const thread of page.threads) {
        if (threads.length === wanted.limit) return { threads, nextCursor: String(at) }
        at++
        if (allowed(thread) && isWanted(thread, wanted, first)) threads.push(await this.#viewOf(thread, first))
      }
      if (page.threads.length < READ_MAX) return { threads, nextCursor: null }
    }
    return { threads, nextCursor: String(at) }
  }

  /** The project's rules are asked about the search, once. @throws Failure what they refuse with */
  async #allowed(call: UserCall, { limit, cursor }: Wanted): Promise<(thread: Thread) => boolean> {
    const value: JsonObject = { metadata: {}, limit, offset: cursor }
    const wanted = (await this.#services.policy?.askFor(call)('threads', 'search', value)) ?? null
    return ({ metadata }) => wanted === null || holds(metadata, wanted)
  }

  /** Whose a thread is that names none. */
  async #firstAgentOf({ user }: UserCall): Promise<string> {
    const [first] = await this.#services.assistants.system(user.id)
    return first?.graph_id ?? ''
  }

  /** A copy has the metadata of another thread, and with it that one's name. */
  async #nameOf({ thread_id, metadata }: Thread): Promise<string> {
    const name = textOr(metadata[THREAD_NAME])
    return name !== null && (await threadIdOf(this.#services, PROTOCOL, name)) === thread_id ? name : thread_id
  }

  async #viewOf(thread: Thread, first: string): Promise<ListedThread> {
    const { user_id, assistant_id, display_name, created_at, updated_at } = thread
    return {
      id: await this.#nameOf(thread),
      organizationId: '',
      agentId: assistant_id ?? first,
      createdById: user_id ?? '',
      name: display_name,
      archived: isArchived(thread),
      createdAt: created_at,
      updatedAt: updated_at
    }
  }

  /** @throws Failure thread_not_found */
  async change(call: UserCall, name: string, { name: title, archived }: ThreadChange): Promise<ListedThread> {
    const thread_id = await this.#idOf(call, name)
    const { states, writer, store } = this.#services
    if (title !== undefined) {
      const place = { checkpointId: null, namespace: '' }
      const change = { place, values: { title }, asNode: null, user: call.user.id }
      writtenState(await states.update(thread_id, change), thread_id, null)
    }
    if (archived !== undefined)
      await writer.write({ name: 'thread.patch', thread_id, metadata: { [ARCHIVED]: archived }, now: timestamp() })
    const thread = await store.threads.get(thread_id)
    if (!thread) throw fail('thread_not_found', { id: name })
    return this.#viewOf(thread, await this.#firstAgentOf(call))
  }

  /** @throws Failure thread_not_found */
  async remove(call: UserCall, name: string): Promise<void> {
    await removeThread(this.#services, await this.#idOf(call, name), call.user.id)
  }

  async #idOf(call: UserCall, name: string): Promise<string> {
    const threadId = await visibleThread(this.#services, call, PROTOCOL, name)
    if (threadId === null) throw fail('thread_not_found', { id: name })
    return threadId
  }
}

function isWanted(thread: Thread, { agentId, includeArchived }: Wanted, first: string): boolean {
  return (thread.assistant_id ?? first) === agentId && (includeArchived || !isArchived(thread))
}

function isArchived({ metadata }: Thread): boolean {
  return metadata[ARCHIVED] === true
}
