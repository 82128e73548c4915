// How old is a frame when a reader has it, with few readers and with many?
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { Readers, Server } from './rig.ts'
import type { TargetName } from './targets.ts'

const RATE = 100

interface Sample {
  readonly p50: number
  readonly p99: number
  readonly cpuPerFrame: number
}

async function sample(server: Server, isFloor: boolean, joiners: number, script: Script): Promise<Sample> {
  const readers = new Readers()
  try {
    const path = isFloor ? '/' : await server.run(script)
    const { done } = await readers.open(server, path, joiners, { ages: true })
    const before = await server.usage()
    server.go()
    const { ages } = await done
    const { cpu } = await server.usage()
    const cpuPerFrame = (cpu - before.cpu) / (script.deltas * joiners)
    return { p50: quantile(ages, 0.5), p99: quantile(ages, 0.99), cpuPerFrame }
  } finally {
    readers.stop()
  }
}

/** Ours and the floor in turn, so that a slow minute of the machine is both's. */
async function samplesOf(
  joiners: number,
  script: Script,
  repeats: number
): Promise<{ ours: Sample[]; floor: Sample[] }> {
  const [ours, floor] = [await Server.gateway(), await Server.floor({ floor: 'sock', script })]
  const samples = { ours: [] as Sample[], floor: [] as Sample[] }
  try {
    // The first round is of code that is not compiled yet.
    for (let i = -1; i < repeats; i++) {
      const [one, other] = [await sample(ours, false, joiners, script), await sample(floor, true, joiners, script)]
      if (i < 0) continue
      samples.ours.push(one)
      samples.floor.push(other)
    }
    return samples
  } finally {
    await ours.stop()
    await floor.stop()
  }
}

export async function latency({ quick, repeats, joiners: given }: Options): Promise<void> {
  const rows: Row[] = []
  const measures: Measure[] = []
  const seconds = quick ? 2 : 5
  for (const joiners of given === null ? [1, 10, 25, 100] : [given]) {
    const script: Script = { deltas: RATE * seconds, size: 60, rate: RATE, isStamped: true }
    const { ours, floor } = await samplesOf(joiners, script, repeats)
    const text = (samples: readonly Sample[], what: keyof Sample) => median(samples.map((one) => one[what])).text
    const mid = (samples: readonly Sample[], what: keyof Sample) => median(samples.map((one) => one[what])).mid
    rows.push({
      joiners,
      'p50 ms': text(ours, 'p50'),
      'p99 ms': text(ours, 'p99'),
      'floor p50 ms': text(floor, 'p50'),
      'floor p99 ms': text(floor, 'p99'),
      'us/frame': text(ours, 'cpuPerFrame'),
      'to floor': short(mid(ours, 'cpuPerFrame') / mid(floor, 'cpuPerFrame'))
    })
    // The names of the table, of which only these two are of this bench.
    const target = { 1: 'latency-1', 100: 'latency-100' }[joiners] as TargetName | undefined
    if (target) measures.push({ target, ours: ours.map(({ p50 }) => p50), floor: floor.map(({ p50 }) => p50) })
  }
  report(`How old is a frame when a reader has it, at ${RATE} deltas/s?`, { repeats, seconds }, rows, measures)
}
