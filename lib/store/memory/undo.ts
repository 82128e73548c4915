// One group of writes under way: how to take back what it did so far, and what follows once it is kept [Store 2].

/**
 * Changes are made at once, so that later ops of the group see them, and each registers its inverse. `rollBack` runs the
 * inverses in reverse order; each therefore finds the maps exactly as its change left them.
 */
export class Undo {
  readonly #inverses: (() => void)[] = []
  readonly #whenKept: (() => void)[] = []

  /** Registers how to take back the change that was just made. */
  add(inverse: () => void): void {
    this.#inverses.push(inverse)
  }

  set<K, V>(map: Map<K, V>, key: K, value: V): void {
    const before = map.get(key)
    const had = map.has(key)
    map.set(key, value)
    // `had` says that there was a value, which may itself be undefined in V.
    this.add(() => (had ? map.set(key, before as V) : map.delete(key)))
  }

  delete<K, V>(map: Map<K, V>, key: K): void {
    if (!map.has(key)) return
    const before = map.get(key) as V // it is there, see above
    map.delete(key)
    this.add(() => map.set(key, before))
  }

  push<T>(list: T[], item: T): void {
    list.push(item)
    this.add(() => list.pop())
  }

  insert<T>(list: T[], index: number, item: T): void {
    list.splice(index, 0, item)
    this.add(() => list.splice(index, 1))
  }

  /** Registers what may only happen when the whole group is kept. */
  whenKept(work: () => void): void {
    this.#whenKept.push(work)
  }

  keep(): void {
    for (const work of this.#whenKept) work()
  }

  rollBack(): void {
    for (const inverse of this.#inverses.reverse()) inverse()
  }
}
