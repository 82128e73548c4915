// Components of a process: started in order, stopped in reverse order.
/** Something that is started once and stopped once. */
export interface Component {
  start?(): unknown
  stop?(): unknown
}

/** Those that were started. They are stopped also when a start fails halfway. */
export class Components {
  readonly #begun: Component[] = []
  #stopped: Promise<void> | null = null

  async start(component: Component): Promise<void> {
    // Before it has started: a start that fails may have opened something.
    this.#begun.push(component)
    await component.start?.()
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stopAll()
    return this.#stopped
  }

  /** All of them, also when one fails: a lock that is kept would keep the next start. */
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
