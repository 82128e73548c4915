// Queues conversations for memory updates. Each waits at most once: new turns are added and restart the delay, so that a
// conversation is processed when it pauses, not after every turn.
import type { Message } from '../base/types.ts'
import type { Memories, MemoryOwner } from './memories.ts'
import { applied, question, readAnswer, type UpdateOptions } from './update.ts'

export interface Conversation extends MemoryOwner {
  /** Captured when added: there is no request after the delay [Isolation]. */
  readonly userId: string
  readonly threadId: string
  /** Messages of the user's own turns since the last update. */
  readonly messages: readonly Message[]
}

export interface MemoryQueueOptions extends UpdateOptions {
  readonly debounceMs: number
  /** Calls a model. If it rejects, this update is lost. */
  ask(question: { readonly system: string; readonly user: string }, signal: AbortSignal): Promise<string>
  /** An update failed; its run has long ended. */
  onFailed(error: unknown, threadId: string): void
}

/** Concurrent updates: the model should serve users first. */
const AT_ONCE = 2
/** Timeout of a model call in ms. */
const ASK_MS = 60_000

export class MemoryQueue {
  readonly #memories: Memories
  readonly #options: MemoryQueueOptions
  readonly #waiting = new Map<string, { conversation: Conversation; timer: NodeJS.Timeout }>()
  #due: Conversation[] = []
  readonly #working = new Set<Promise<void>>()
  /** Of threads or users that are gone: what the model answers is not kept. */
  readonly #forgotten = new WeakSet<Conversation>()
  readonly #asked = new Set<Conversation>()
  readonly #stop = new AbortController()

  constructor(memories: Memories, options: MemoryQueueOptions) {
    this.#memories = memories
    this.#options = options
  }

  /** Queued and active conversations. */
  get size(): number {
    return this.#waiting.size + this.#due.length + this.#working.size
  }

  /** Keyed by user, agent and thread: two users of a shared thread have two conversations. */
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

  /** Drops what was said in a deleted thread. */
  forget(threadId: string): void {
    this.#drop((conversation) => conversation.threadId === threadId)
  }

  /** Drops what somebody has said who is gone. */
  forgetUser(userId: string): void {
    this.#drop((conversation) => conversation.userId === userId)
  }

  #drop(isGone: (conversation: Conversation) => boolean): void {
    for (const [key, { conversation, timer }] of this.#waiting) {
      if (!isGone(conversation)) continue
      clearTimeout(timer)
      this.#waiting.delete(key)
    }
    this.#due = this.#due.filter((conversation) => !isGone(conversation))
    for (const conversation of this.#asked) if (isGone(conversation)) this.#forgotten.add(conversation)
  }

  /** Processes the whole queue now, for at most `ms`; the rest is lost. */
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
      this.#asked.add(conversation)
      const work = this.#update(conversation)
        .catch((error: unknown) => this.#options.onFailed(error, conversation.threadId))
        .finally(() => {
          this.#asked.delete(conversation)
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
    // Applied to the current memory, so that facts added meanwhile stay.
    await this.#memories.change(conversation, (memory) =>
      this.#forgotten.has(conversation) ? null : applied(memory, answer, threadId, now, this.#options)
    )
  }
}

/** Adds the earlier messages that `added` does not contain. */
function joined(before: readonly Message[], added: Conversation): Conversation {
  const known = new Set(added.messages.map(({ id }) => id))
  return { ...added, messages: [...before.filter(({ id }) => !known.has(id)), ...added.messages] }
}
