// Contexts of Agent2Agent (A2A): threads, by their id, or by a text of the client's own.
import { randomUUID } from 'node:crypto'
import type { UserCall } from '../../http/route.ts'
import { isId } from '../../http/schema.ts'
import type { Services } from '../../routes/services.ts'
import { newThread } from '../../thread/thread.ts'
import { timestamp } from '../../base/types.ts'

/** Whose names they are, among those of other protocols. */
const PROTOCOL = 'a2a'

export class Contexts {
  readonly #services: Pick<Services, 'store' | 'writer' | 'limits'>

  constructor(services: Pick<Services, 'store' | 'writer' | 'limits'>) {
    this.#services = services
  }

  /** The caller's thread of this name; null: there is none, also where it is somebody else's id. */
  async find(context: string): Promise<string | null> {
    const { threads, aliases } = this.#services.store
    if (isId(context) && (await threads.get(context))) return context
    return (await aliases.get(PROTOCOL, context))?.thread_id ?? null
  }

  /** The same; one that is not there yet is made, and has this name from then on. @throws Failure threads_full */
  async open({ user }: UserCall, context: string, assistant: string): Promise<string> {
    const known = await this.find(context)
    if (known !== null) return known
    const { limits, writer } = this.#services
    const thread_id = randomUUID()
    const given = { thread_id, user_id: user.id, assistant_id: assistant, metadata: {} }
    await limits.createThread(newThread(given, timestamp()))
    const alias = { user_id: user.id, protocol: PROTOCOL, text: context, thread_id, run_id: null }
    // Of two who open it at once one has made it.
    const named = await writer.write({ name: 'alias.put', alias, now: timestamp() })
    return named?.thread_id ?? thread_id
  }
}
