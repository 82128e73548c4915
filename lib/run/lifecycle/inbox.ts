// Messages for an agent at work. Each waits until the agent takes it; what it has not taken when the run is over goes back to its sender.
import type { HumanMessage } from '../../base/types.ts'

interface Waiting {
  readonly messages: readonly HumanMessage[]
  readonly resolve: (isTaken: boolean) => void
}

export class Inbox {
  readonly #waiting: Waiting[] = []
  #isClosed = false

  /** Resolves with true when the agent has taken them, with false when it never will. `withdrawn`: their sender is gone. */
  put(messages: readonly HumanMessage[], withdrawn: AbortSignal): Promise<boolean> {
    if (this.#isClosed || withdrawn.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const waiting = { messages, resolve }
      this.#waiting.push(waiting)
      withdrawn.addEventListener('abort', () => {
        const at = this.#waiting.indexOf(waiting)
        if (at >= 0) this.#waiting.splice(at, 1)
        resolve(false)
      })
    })
  }

  /** All that wait, oldest first. The caller records them in the same turn. */
  take(): HumanMessage[] {
    const taken = this.#waiting.splice(0)
    for (const { resolve } of taken) resolve(true)
    return taken.flatMap(({ messages }) => messages)
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  close(): void {
    this.#isClosed = true
    for (const { resolve } of this.#waiting.splice(0)) resolve(false)
  }
}
