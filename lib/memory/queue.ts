// Conversations waiting to be read for their user's memory. Each waits at most once: new turns join it and restart the
// delay, so that a talk is read when it pauses and not at every turn.
import type { Message } from '../types.ts'
import type { Memories, MemoryOwner } from './memories.ts'
import { applied, question, readAnswer, type UpdateOptions } from './update.ts'

export interface Conversation extends MemoryOwner {
  /** Captured when added: there is no request any more when the delay is over [Isolation]. */
  readonly userId: string
  readonly threadId: string
  /** Of the turns that are its user's own, since it was read last. */
  readonly messages: readonly Message[]
}

export interface MemoryQueueOptions extends UpdateOptions {
  readonly debounceMs: number
  /** Calls a model. A rejection only loses this update. */
  ask(question: { readonly system: string; readonly user: string }, signal: AbortSignal): Promise<string>
  /** An update that failed: the run that it came from knows nothing of it. */
  onFailed(error: unknown, threadId: string): void
}

/** Updates at the same time: the model serves people first. */
const AT_ONCE = 2
/** Milliseconds of one model call. */
const ASK_MS = 60_000

export class MemoryQueue {
  readonly #memories: Memories
  readonly #options: MemoryQueueOptions
  readonly #waiting = new Map<string, { conversation: Conversation; timer: NodeJS.Timeout }>()
  readonly #due: Conversation[] = []
  readonly #working = new Set<Promise<void>>()
  readonly #stop = new AbortController()

  constructor(memories: Memories, options: MemoryQueueOptions) {
    this.#memories = memories
    this.#options = options
  }

  /** Queued and active conversations. */
  get size(): number {
    return this.#waiting.size + this.#due.length + this.#working.size
  }

  /** Keyed by user, agent and thread: two users of one shared thread are two conversations. */
  add(added: Conversation): void {
    if (this.#stop.signal.aborted) return
    const key = JSON.stringify([added.userId, added.agentName, added.threadId])
    const before = this.#waiting.get(key)
    clearTimeout(before?.timer)
    const conversation = joined(before?.conversation.messages ?? [], added)
    const timer = setTimeout(() => {
      this.#waiting.delete(key)
      this.#start(conversation)
    }, this.#options.debounceMs)
    timer.unref()
    this.#waiting.set(key, { conversation, timer })
  }

  /** Drops a deleted thread. */
  forget(threadId: string): void {
    for (const [key, { conversation, timer }] of this.#waiting) {
      if (conversation.threadId !== threadId) continue
      clearTimeout(timer)
      this.#waiting.delete(key)
    }
  }

  /** Reads everything queued now, for at most `ms`, and drops the rest. */
  async flush(ms: number): Promise<void> {
    for (const { conversation, timer } of this.#waiting.values()) {
      clearTimeout(timer)
      this.#start(conversation)
    }
    this.#waiting.clear()
    const giveUp = setTimeout(() => this.#stop.abort(new Error('The process ended')), ms)
    while (this.#working.size > 0) await Promise.all(this.#working)
    clearTimeout(giveUp)
  }

  #start(conversation: Conversation): void {
    this.#due.push(conversation)
    this.#next()
  }

  #next(): void {
    while (this.#working.size < AT_ONCE) {
      const conversation = this.#due.shift()
      if (!conversation) return
      const work = this.#update(conversation)
        .catch((error: unknown) => this.#options.onFailed(error, conversation.threadId))
        .finally(() => {
          this.#working.delete(work)
          this.#next()
        })
      this.#working.add(work)
    }
  }

  async #update(conversation: Conversation): Promise<void> {
    const { threadId, messages } = conversation
    const asked = question(await this.#memories.read(conversation), messages)
    if (asked === null) return
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(ASK_MS)])
    const answer = readAnswer(await this.#options.ask(asked, signal))
    if (answer === null) throw new Error('The model did not answer with a memory')
    const now = new Date().toISOString()
    // Applied to the current memory: facts the user added meanwhile stay.
    await this.#memories.change(conversation, (memory) => applied(memory, answer, threadId, now, this.#options))
  }
}

/** With the messages before it that it does not bring in a newer state. */
function joined(before: readonly Message[], added: Conversation): Conversation {
  const known = new Set(added.messages.map(({ id }) => id))
  return { ...added, messages: [...before.filter(({ id }) => !known.has(id)), ...added.messages] }
}
