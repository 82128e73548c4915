// Branches of a thread: which runs are alternatives, where each starts, and where it has led. Runs of the page have this in their
// metadata; other clients branch by checkpoint only, and their branches are found in the history.
import type { ReadonlySignal } from '@preact/signals'
import { call } from './api.ts'
import type { Checkpoint, Run } from './records.ts'

const HISTORY_PAGE = 20
/** History entries to search for branches of other clients. */
const BRANCHES_MAX = 400

export class Branches {
  /** API path of the thread. */
  readonly #path: string
  readonly #runs: ReadonlySignal<readonly Run[]>
  /** Branches of other clients; null: none. */
  #foreign: HistoryBranches | null = null
  /** The newest run at the last search. */
  #lookedAt = ''

  constructor(path: string, runs: ReadonlySignal<readonly Run[]>) {
    this.#path = path
    this.#runs = runs
  }

  /**
   * Searches the history for branches of other clients, if a run is missing among those shown.
   * @param shown runs of the shown messages
   */
  async find(runs: readonly Run[], shown: ReadonlySet<unknown>): Promise<void> {
    const isForeign = runs.some(({ metadata }) => metadata.parent_run === undefined)
    const isMissing = runs.some(({ run_id, status }) => status === 'success' && !shown.has(run_id))
    const newest = runs[0] ? `${runs[0].run_id} ${runs[0].updated_at}` : ''
    if (!isForeign || !isMissing || newest === this.#lookedAt) return
    const history = await this.#history((all) => all.length >= BRANCHES_MAX)
    this.#foreign = branchesIn(history)
    this.#lookedAt = newest
  }

  /** Alternatives of a run, including itself, oldest first. */
  of(runId: string): readonly Run[] {
    const beside = this.#foreign?.beside.get(runId)
    if (beside) return beside.flatMap((id) => this.#run(id) ?? [])
    const root = this.rootOf(runId)
    return this.#runs.value.filter((run) => run.run_id === root || run.metadata.branch_of === root).toReversed()
  }

  rootOf(runId: string): string {
    return this.#run(runId)?.metadata.branch_of ?? runId
  }

  /** The last checkpoint of a run and its followers; undefined: no longer stored. */
  async endOf(runId: string): Promise<string | undefined> {
    const known = this.#foreign?.ends.get(runId)
    if (known !== undefined) return known
    let leaf = runId
    for (;;) {
      const next = this.#runs.value.find(({ metadata }) => metadata.parent_run === leaf)
      if (!next) break
      leaf = next.run_id
    }
    const isEnd = ({ metadata }: Checkpoint) => metadata.run_id === leaf
    return (await this.#history((all) => all.some(isEnd))).find(isEnd)?.checkpoint_id
  }

  /** The checkpoint a run started from; for the first run of a graph's thread, its own first checkpoint, which is empty. */
  async checkpointBefore(runId: string): Promise<string | null> {
    const isOf = ({ metadata }: Checkpoint) => metadata.run_id === runId
    // Until a checkpoint of another run follows, because the run's first may be on the next page.
    const history = await this.#history((all) => all.findLastIndex(isOf) >= 0 && !isOf(all.at(-1)!))
    const ids = new Set(history.filter(isOf).map(({ checkpoint_id }) => checkpoint_id))
    const first = history.find((one) => isOf(one) && !ids.has(one.parent_checkpoint_id ?? ''))
    return first ? (first.parent_checkpoint_id ?? first.checkpoint_id) : null
  }

  /** Reads the history, newest first, page by page until there is enough. */
  async #history(isEnough: (all: readonly Checkpoint[]) => boolean): Promise<readonly Checkpoint[]> {
    const all: Checkpoint[] = []
    for (let left = 500; left > 0; left--) {
      const before = all.at(-1)?.checkpoint_id
      const body = { limit: HISTORY_PAGE, ...(before && { before }) }
      const page = await call<Checkpoint[]>('POST', `${this.#path}/history`, body)
      all.push(...page)
      // Pages of long entries are short, so only an empty page is the last.
      if (page.length === 0 || isEnough(all)) break
    }
    return all
  }

  #run(runId: string): Run | undefined {
    return this.#runs.value.find(({ run_id }) => run_id === runId)
  }
}

interface HistoryBranches {
  /** Alternatives by run, oldest first. */
  readonly beside: ReadonlyMap<string, readonly string[]>
  /** The newest checkpoint by run, including its followers'. */
  readonly ends: ReadonlyMap<string, string>
}

/** @param history newest first */
function branchesIn(history: readonly Checkpoint[]): HistoryBranches {
  const entries = new Map(history.map((entry) => [entry.checkpoint_id, entry]))
  const parentOf = ({ parent_checkpoint_id: id }: Checkpoint) => (id === null ? undefined : entries.get(id))
  const runOf = (entry: Checkpoint | undefined) => entry?.metadata.run_id
  const inner = new Set<Checkpoint>()
  const firsts = new Map<string, Checkpoint>()
  for (const entry of history) {
    const run = runOf(entry)
    if (run === undefined) continue
    firsts.set(run, entry)
    const parent = parentOf(entry)
    if (parent && runOf(parent) === run) inner.add(parent)
  }
  const ends = new Map<string, string>()
  // Newest first, so the first checkpoint found is the end.
  for (const end of history) {
    let left: string | undefined
    for (let at: Checkpoint | undefined = end, below: Checkpoint | undefined; at; below = at, at = parentOf(at)) {
      const run = runOf(at)
      // A branch from the middle of a run does not count as that run's end.
      if (below && inner.has(at) && runOf(below) !== run) left = run
      if (run !== undefined && run !== left && !ends.has(run)) ends.set(run, end.checkpoint_id)
    }
  }
  /** The place where a run starts. A run that starts in the middle of another is an alternative to it. */
  const placeOf = (run: string): string => {
    let before = parentOf(firsts.get(run)!)
    // State updates between runs (a title, a switch) are skipped.
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
