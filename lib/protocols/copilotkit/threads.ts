// Threads as CopilotKit's pages list, rename, archive and delete them.
import { fail } from '../../base/errors.ts'
import { textOr } from '../../base/json.ts'
import { type Thread, timestamp } from '../../base/types.ts'
import type { UserCall } from '../../http/route.ts'
import { Authorizer } from '../../routes/authorization.ts'
import { removeThread } from '../../routes/remove-thread.ts'
import type { Services } from '../../routes/services.ts'
import { writtenState } from '../../routes/state.ts'
import { PROTOCOL } from '../ag-ui/index.ts'
import { THREAD_NAME } from '../ag-ui/translate.ts'
import { visibleThread } from '../threads.ts'

/** A thread as its client's list has it. */
export interface ListedThread {
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
export interface Wanted {
  readonly agentId: string
  readonly includeArchived: boolean
  readonly limit: number
  /** How many of the caller's threads were looked at for the pages before. */
  readonly cursor: number
}

/** What of a thread is changed; absent: not that. */
export interface ThreadChange {
  readonly name?: string | null | undefined
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
    let at = wanted.cursor
    while (at < wanted.cursor + LOOKED_AT_MAX) {
      const query = { limit: READ_MAX, offset: at, sortBy: 'updated_at', sortOrder: 'desc' } as const
      const page = await this.#services.store.threads.search(query)
      for (const thread of page.threads) {
        if (threads.length === wanted.limit) return { threads, nextCursor: String(at) }
        at++
        if (await this.#isShown(call, thread, wanted)) threads.push(this.#viewOf(thread))
      }
      if (page.threads.length < READ_MAX) return { threads, nextCursor: null }
    }
    return { threads, nextCursor: String(at) }
  }

  async #isShown(call: UserCall, thread: Thread, { agentId, includeArchived }: Wanted): Promise<boolean> {
    if (this.#agentOf(thread) !== agentId || (isArchived(thread) && !includeArchived)) return false
    const { policy } = this.#services
    if (!policy) return true
    return new Authorizer(this.#services, policy.askFor(call)).thread('read', thread.thread_id).then(
      () => true,
      () => false
    )
  }

  /** Of a thread that names none, the first one. */
  #agentOf({ assistant_id }: Thread): string {
    return assistant_id ?? this.#services.assistants.system()[0]?.graph_id ?? ''
  }

  #viewOf(thread: Thread): ListedThread {
    const { thread_id, user_id, display_name, metadata, created_at, updated_at } = thread
    return {
      id: textOr(metadata[THREAD_NAME]) ?? thread_id,
      organizationId: '',
      agentId: this.#agentOf(thread),
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
    if (typeof title === 'string') {
      const place = { checkpointId: null, namespace: '' }
      const change = { place, values: { title }, asNode: null, user: call.user.id }
      writtenState(await states.update(thread_id, change), thread_id, null)
    }
    if (archived !== undefined)
      await writer.write({ name: 'thread.patch', thread_id, metadata: { [ARCHIVED]: archived }, now: timestamp() })
    const thread = await store.threads.get(thread_id)
    if (!thread) throw fail('thread_not_found', { id: name })
    return this.#viewOf(thread)
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

function isArchived({ metadata }: Thread): boolean {
  return metadata[ARCHIVED] === true
}
