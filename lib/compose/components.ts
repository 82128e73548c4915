// Components of a process: started in order, stopped in reverse order.
/** A part of the process that is started and stopped once. */
export interface Component {
  start?(): unknown
  stop?(): unknown
}

/** The started components. A start that fails halfway stops them too. */
export class Components {
  readonly #begun: Component[] = []
  #stopped: Promise<void> | null = null

  async start(component: Component): Promise<void> {
    // Recorded before starting: a failing start may have opened something.
    this.#begun.push(component)
    await component.start?.()
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stopAll()
    return this.#stopped
  }

  /** Stops all, even when one fails: a lock left behind would block the next start. */
  async #stopAll(): Promise<void> {
    const errors: unknown[] = []
    for (const component of this.#begun.reverse()) {
      try {
        await component.stop?.()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length) throw errors[0]
  }
}
