// What does one frame cost when many runs stream at once, a reader each? With deltas out of nothing, and with those of a model, where
// the honest floor is a relay: a parser and a bare response.
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { type Config, Model, Readers, Server } from './rig.ts'
import { mean, roundsOf, type Sample } from './rounds.ts'
import type { TargetName } from './targets.ts'

const SIZE = 20
const RATE = 50
const TICK_MS = 20

type Kind = 'ours' | 'floor' | 'ours with a model' | 'relay'
const KINDS: readonly Kind[] = ['ours', 'floor', 'ours with a model', 'relay']

/** The gateway does here what a relay does: no titles, memory or skills, which would ask the model as well. */
export function modelConfig(base_url: string): Config {
  return {
    models: [{ name: 'bench', base_url, model: 'bench' }],
    title: { enabled: false },
    memory: { enabled: false },
    skills: { enabled: false }
  }
}

function start(kind: Kind, script: Script, model: string): Promise<Server> {
  if (kind === 'ours') return Server.gateway()
  if (kind === 'ours with a model') return Server.gateway(modelConfig(model), true)
  if (kind === 'relay') return Server.floor({ floor: 'relay', script, model })
  return script.rate === 0
    ? Server.floor({ floor: 'write', script })
    : Server.floor({ floor: 'ticker', script, tickMs: TICK_MS })
}

/** One round: the runs begin, stream and end. */
async function sample(kind: Kind, server: Server, model: Model, k: number, script: Script): Promise<Sample> {
  const readers = new Readers()
  try {
    const isOurs = kind.startsWith('ours')
    const paths = isOurs ? await server.runs(script, k) : Array.from({ length: k }, () => '/')
    const { done } = await readers.openAll(server, paths, { ages: script.isStamped === true })
    if (kind === 'relay' || kind === 'ours with a model') await model.asked(k)
    const before = await server.usage()
    const began = performance.now()
    server.go()
    model.go()
    const { frames, ages } = await done
    const wallMs = performance.now() - began
    const after = await server.usage()
    const all = script.deltas * k
    if (frames < all) throw new Error(`${kind}: ${frames} frames arrived of ${all}`)
    return {
      cpuPerFrame: (after.cpu - before.cpu) / all,
      storePerFrame: (after.store - before.store) / all,
      framesPerS: all / (wallMs / 1000),
      ageMs: quantile(ages, 0.5)
    }
  } finally {
    readers.stop()
  }
}

type Samples = Readonly<Record<Kind, Sample[]>>

/** All kinds in turn, so that a slow minute of the machine is everybody's. */
export async function runSamples(
  k: number,
  script: Script,
  { repeats, quick }: Options,
  kinds: readonly Kind[] = KINDS
): Promise<Samples> {
  const { warmUp, each } = roundsOf(script)
  const samples: Samples = { ours: [], floor: [], 'ours with a model': [], relay: [] }
  const model = await Model.start()
  const servers: (readonly [Kind, Server])[] = []
  try {
    for (const kind of kinds) servers.push([kind, await start(kind, script, model.url)])
    for (const [kind, server] of servers) await mean(quick ? 1 : warmUp, () => sample(kind, server, model, k, script))
    for (let i = 0; i < repeats; i++)
      for (const [kind, server] of servers)
        samples[kind].push(await mean(each, () => sample(kind, server, model, k, script)))
    return samples
  } finally {
    for (const [, server] of servers) await server.stop()
    model.stop()
  }
}

const TARGET_OF: Readonly<Record<string, readonly [TargetName, TargetName]>> = {
  '200 paced': ['runs-paced', 'relay-paced'],
  '50 flat': ['runs-flat', 'relay-flat']
}

export async function manyRuns(options: Options): Promise<void> {
  const { quick, repeats } = options
  const rows: Row[] = []
  const measures: Measure[] = []
  for (const k of quick ? [1, 50] : [1, 50, 200]) {
    for (const rate of [RATE, 0]) {
      const seconds = quick ? 1 : 5
      const script: Script =
        rate === 0
          ? { deltas: quick ? 200 : 500, size: SIZE, rate, turn: 1 }
          : { deltas: rate * seconds, size: SIZE, rate }
      const samples = await runSamples(k, script, options)
      const cpu = (kind: Kind) => samples[kind].map((one) => one.cpuPerFrame)
      const mid = (kind: Kind) => median(cpu(kind))
      rows.push({
        runs: k,
        'rate/s': rate === 0 ? 'flat out' : rate,
        'ours us/frame': mid('ours').text,
        'store us/frame': short(median(samples.ours.map((one) => one.storePerFrame)).mid),
        floor: mid('floor').text,
        ratio: short(mid('ours').mid / mid('floor').mid),
        'with a model us/frame': mid('ours with a model').text,
        'floor: relay': mid('relay').text,
        'ratio to relay': short(mid('ours with a model').mid / mid('relay').mid),
        'frames/s': Math.round(median(samples.ours.map((one) => one.framesPerS)).mid)
      })
      const [own, relay] = TARGET_OF[`${k} ${rate === 0 ? 'flat' : 'paced'}`] ?? []
      if (own) measures.push({ target: own, ours: cpu('ours'), floor: cpu('floor') })
      if (relay) measures.push({ target: relay, ours: cpu('ours with a model'), floor: cpu('relay') })
    }
  }
  report(
    'What does a frame cost when many runs stream at once?',
    { repeats, size: SIZE, tickMs: TICK_MS },
    rows,
    measures
  )
}
