// How fast do 10,000 frames reach somebody who comes late? Of a run that is still in memory, and of one that is read from the store.
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { Readers, Server } from './rig.ts'

const SCRIPT: Script = { deltas: 10_000, size: 60, rate: 0 }
const MEMORY = { streams: { window_bytes: 64 * 1024 * 1024 } }

/** Replays before those that are measured; and of a sample, because one is a matter of milliseconds. */
const WARM_UP = 20
const ROUNDS = 20

interface Sample {
  readonly cpuPerFrame: number
  readonly mbPerS: number
  readonly firstMs: number
  readonly wallMs: number
}

async function sample(server: Server, path: string, joiners: number): Promise<Sample> {
  const readers = new Readers()
  // A run that is still open has no end yet: its readers count.
  const until = { until: SCRIPT.deltas }
  try {
    const round = async (count: number) => (await readers.open(server, path, count, until)).done
    // Both processes warm up.
    for (let i = 0; i < WARM_UP; i++) await round(1)
    const before = await server.usage()
    const rounds: Awaited<ReturnType<typeof round>>[] = []
    for (let i = 0; i < ROUNDS; i++) rounds.push(await round(joiners))
    const after = await server.usage()
    const all = SCRIPT.deltas * joiners
    const least = Math.min(...rounds.map(({ frames }) => frames))
    if (least < all) throw new Error(`${least} frames arrived of ${all}`)
    const mid = (of: (one: (typeof rounds)[number]) => number) => quantile(rounds.map(of), 0.5)
    return {
      cpuPerFrame: (after.cpu - before.cpu) / (all * ROUNDS),
      mbPerS: mid(({ bytes, wallMs }) => bytes / 1e6 / (wallMs / 1000)),
      firstMs: mid(({ firstMs }) => quantile(firstMs, 0.5)),
      wallMs: mid(({ wallMs }) => wallMs)
    }
  } finally {
    readers.stop()
  }
}

/** A run that has told everything and waits. */
async function open(server: Server): Promise<string> {
  const path = await server.run({ ...SCRIPT, hold: true })
  server.go()
  const readers = new Readers()
  await (await readers.open(server, path, 1, { until: SCRIPT.deltas })).done
  readers.stop()
  return path
}

async function finished(server: Server): Promise<string> {
  const path = await server.run(SCRIPT)
  server.go()
  await (await server.get(path)).arrayBuffer()
  // Until the frames of the run are compressed, as they are for whoever comes later.
  await new Promise((resolve) => setTimeout(resolve, 1000))
  return path
}

export async function replay({ repeats }: Options): Promise<void> {
  const servers = {
    memory: await Server.gateway(MEMORY),
    store: await Server.gateway(),
    floor: await Server.floor({ floor: 'slab', script: SCRIPT })
  }
  const rows: Row[] = []
  const measures: Measure[] = []
  try {
    const paths = { memory: await open(servers.memory), store: await finished(servers.store), floor: '/' }
    for (const joiners of [1, 10]) {
      const samples: Record<keyof typeof servers, Sample[]> = { memory: [], store: [], floor: [] }
      for (let i = 0; i < repeats; i++)
        for (const name of ['memory', 'store', 'floor'] as const)
          samples[name].push(await sample(servers[name], paths[name], joiners))
      const pick = (name: keyof typeof servers, what: keyof Sample) => samples[name].map((one) => one[what])
      for (const name of ['memory', 'store', 'floor'] as const)
        rows.push({
          readers: joiners,
          'frames from': name === 'floor' ? 'floor: slabs in memory' : name,
          'CPU us/frame': median(pick(name, 'cpuPerFrame')).text,
          'to the floor': short(median(pick(name, 'cpuPerFrame')).mid / median(pick('floor', 'cpuPerFrame')).mid),
          'MB/s': median(pick(name, 'mbPerS')).text,
          'first frame ms': median(pick(name, 'firstMs')).text,
          'all frames ms': median(pick(name, 'wallMs')).text
        })
      if (joiners > 1) continue
      measures.push(
        { target: 'replay-memory', ours: pick('memory', 'cpuPerFrame'), floor: pick('floor', 'cpuPerFrame') },
        { target: 'replay-memory-rate', ours: pick('memory', 'mbPerS'), floor: pick('floor', 'mbPerS') },
        { target: 'replay-memory-first', ours: pick('memory', 'firstMs'), floor: pick('floor', 'firstMs') },
        { target: 'replay-store', ours: pick('store', 'cpuPerFrame'), floor: pick('floor', 'cpuPerFrame') }
      )
    }
    servers.memory.go()
  } finally {
    for (const server of Object.values(servers)) await server.stop()
  }
  report('What does a replayed frame cost?', { repeats, ...SCRIPT }, rows, measures)
}
