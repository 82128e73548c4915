// Branches of a thread, derived from its history: needed when another client has branched it.

/** An entry of the history, as far as branches show in it. */
export interface Entry {
  readonly checkpoint_id: string
  readonly parent_checkpoint_id: string | null
  readonly metadata: { readonly run_id?: string }
}

export interface Branches {
  /** Runs that answer in the same place, oldest first. */
  readonly beside: ReadonlyMap<string, readonly string[]>
  /** The newest checkpoint to which a run has led, its followers' included. */
  readonly ends: ReadonlyMap<string, string>
}

/** @param history newest first */
export function branchesIn(history: readonly Entry[]): Branches {
  const entries = new Map(history.map((entry) => [entry.checkpoint_id, entry]))
  const parentOf = ({ parent_checkpoint_id: id }: Entry) => (id === null ? undefined : entries.get(id))
  const runOf = (entry: Entry | undefined) => entry?.metadata.run_id
  const inner = new Set<Entry>()
  const firsts = new Map<string, Entry>()
  for (const entry of history) {
    const run = runOf(entry)
    if (run === undefined) continue
    firsts.set(run, entry)
    const parent = parentOf(entry)
    if (parent && runOf(parent) === run) inner.add(parent)
  }
  const ends = new Map<string, string>()
  // Newest first: who is met first stands at the end.
  for (const end of history) {
    let left: string | undefined
    for (let at: Entry | undefined = end, below: Entry | undefined; at; below = at, at = parentOf(at)) {
      const run = runOf(at)
      // What begins within a run leads away from where that run has led.
      if (below && inner.has(at) && runOf(below) !== run) left = run
      if (run !== undefined && run !== left && !ends.has(run)) ends.set(run, end.checkpoint_id)
    }
  }
  /** Where a run begins: behind an answer. One that begins within another run takes that one's place. */
  const placeOf = (run: string): string => {
    let before = parentOf(firsts.get(run)!)
    // What was changed between two runs, a title or the branch, is no place of its own.
    while (before && runOf(before) === undefined) before = parentOf(before)
    if (!before) return 'the beginning'
    return inner.has(before) ? placeOf(runOf(before)!) : before.checkpoint_id
  }
  const places = new Map<string, string[]>()
  for (const run of [...firsts.keys()].reverse()) {
    const place = placeOf(run)
    places.set(place, [...(places.get(place) ?? []), run])
  }
  return { beside: new Map([...places.values()].flatMap((runs) => runs.map((run) => [run, runs]))), ends }
}
