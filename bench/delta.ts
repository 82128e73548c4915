// What does one delta cost from its model to its reader, and how old is it there? At human pace and flat out, for one run and for many,
// each beside the least that one can do for the same bytes, with servers that are new at every repeat. `--joiners N`: the Nth row alone.
import { loadavg } from 'node:os'
import type { Script } from './agent.ts'
import { type Candidate, samplesOf } from './fanout.ts'
import { firstDeltas } from './first-frame.ts'
import { runSamples } from './many-runs.ts'
import type { Options } from './options.ts'
import { type Measure, median, type Row, report, short } from './report.ts'
import type { Sample } from './rounds.ts'
import type { TargetName } from './targets.ts'

const SECONDS = 3
/** Deltas a second of a model that somebody reads along with, and of a run that many watch. */
const [HUMAN, WATCHED] = [50, 100]

interface Pair {
  readonly ours: Sample
  readonly floor: Sample
}

/** One repeat of a row. */
type Measured = (options: Options) => Promise<Pair>

/** `count` runs of a model, a reader each, beside a relay. */
function ofModel(count: number, script: Script): Measured {
  return async (options) => {
    const { 'ours with a model': ours, relay } = await runSamples(count, script, options, [
      'relay',
      'ours with a model'
    ])
    return { ours: ours[0]!, floor: relay[0]! }
  }
}

/** Readers of one run. */
function ofReaders(count: number, floor: Candidate, ours: Candidate = {}, isStamped = true): Measured {
  const script: Script = { deltas: WATCHED * SECONDS, size: 60, rate: WATCHED, isStamped }
  return async (options) => {
    const samples = await samplesOf({ floor, ours }, count, script, options)
    return { ours: samples.ours![0]!, floor: samples.floor![0]! }
  }
}

/** Fifty runs that begin at once: until the first delta of each. */
const first: Measured = async ({ quick }) => {
  const { ours, floor } = await firstDeltas(50, quick ? 2 : 5)
  const none = { cpuPerFrame: 0, storePerFrame: 0, framesPerS: 0 }
  return { ours: { ...none, ageMs: ours }, floor: { ...none, ageMs: floor } }
}

const paced = (isStamped: boolean): Script => ({ deltas: HUMAN * SECONDS, size: 20, rate: HUMAN, isStamped })
const flat: Script = { deltas: 4000, size: 20, rate: 0, turn: 1 }

type Figure = 'cpuPerFrame' | 'ageMs'
const ROWS: readonly (readonly [TargetName, Figure, Measured])[] = [
  ['delta-one', 'cpuPerFrame', ofModel(1, paced(false))],
  ['delta-ten', 'cpuPerFrame', ofReaders(10, { floor: 'sock' })],
  ['delta-flat', 'cpuPerFrame', ofModel(1, flat)],
  ['delta-hundred', 'cpuPerFrame', ofReaders(100, { floor: 'sock' })],
  ['delta-gathered', 'cpuPerFrame', ofReaders(100, { floor: 'coalesce', tickMs: 20 }, { coalesceMs: 20 }, false)],
  ['delta-first', 'ageMs', first],
  ['age-runs', 'ageMs', ofModel(50, paced(true))],
  ['age-hundred', 'ageMs', ofReaders(100, { floor: 'sock' })],
  ['age-thousand', 'ageMs', ofReaders(1000, { floor: 'sock' })]
]

export async function delta(options: Options): Promise<void> {
  const rows: Row[] = []
  const measures: Measure[] = []
  for (const [i, [target, figure, measured]] of ROWS.entries()) {
    if (options.joiners !== null && options.joiners !== i + 1) continue
    const pairs: Pair[] = []
    for (let n = 0; n < options.repeats; n++) pairs.push(await measured({ ...options, repeats: 1 }))
    const of = (side: keyof Pair, what: keyof Sample) => pairs.map((pair) => pair[side][what])
    const ratios = pairs.map(({ ours, floor }) => ours[figure] / floor[figure])
    measures.push({ target, ours: of('ours', figure), floor: of('floor', figure) })
    rows.push({
      row: target,
      'us/frame': median(of('ours', 'cpuPerFrame')).text,
      'store us/frame': short(median(of('ours', 'storePerFrame')).mid),
      floor: median(of('floor', 'cpuPerFrame')).text,
      'age ms': median(of('ours', 'ageMs')).text,
      'floor ms': median(of('floor', 'ageMs')).text,
      ratio: median(ratios).text,
      load: short(loadavg()[0]!)
    })
  }
  report('What does a delta cost, and how old is it at its reader?', { repeats: options.repeats }, rows, measures)
}
