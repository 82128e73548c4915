// What does it cost the server to deliver one frame to one joiner, when a run has many?
import type { Script } from './agent.ts'
import { median, type Row, report, short } from './report.ts'
import { Readers, Server } from './rig.ts'
import type { Kind } from './server.ts'

const SIZE = 60

interface Sample {
  readonly cpuPerFrame: number
  readonly rssPerJoiner: number
  readonly framesPerS: number
}

async function sample(kind: Kind, joiners: number, script: Script): Promise<Sample> {
  const server = await Server.start(kind, script)
  const readers = new Readers()
  try {
    const path = kind === 'gateway' ? await server.run(script) : '/'
    const before = await server.usage()
    const { done } = await readers.open(server, path, joiners)
    const idle = await server.usage()
    const began = performance.now()
    server.go()
    const { frames } = await done
    const wallMs = performance.now() - began
    const after = await server.usage()
    if (frames < script.deltas * joiners)
      throw new Error(`${kind}: ${frames} frames arrived of ${script.deltas * joiners}`)
    return {
      cpuPerFrame: (after.cpu - idle.cpu) / (script.deltas * joiners),
      rssPerJoiner: (idle.rss - before.rss) / joiners,
      framesPerS: (script.deltas * joiners) / (wallMs / 1000)
    }
  } finally {
    readers.stop()
    await server.stop()
  }
}

async function row(joiners: number, rate: number, repeats: number, deltas: number): Promise<Row> {
  const script: Script = { deltas, size: SIZE, rate }
  const samples: Record<'gateway' | 'floor:write' | 'floor:coalesce', Sample[]> = {
    gateway: [],
    'floor:write': [],
    'floor:coalesce': []
  }
  // Interleaved, so that a slow minute of the machine is everybody's.
  for (let i = 0; i < repeats; i++) {
    for (const kind of ['gateway', 'floor:write', 'floor:coalesce'] as const)
      samples[kind].push(await sample(kind, joiners, script))
  }
  const cpu = (kind: keyof typeof samples) => median(samples[kind].map((one) => one.cpuPerFrame))
  const [ours, write, coalesce] = [cpu('gateway'), cpu('floor:write'), cpu('floor:coalesce')]
  return {
    joiners,
    'rate/s': rate === 0 ? 'flat out' : rate,
    'CPU us/frame': ours.text,
    'floor res.write': write.text,
    'floor coalesced': coalesce.text,
    'ratio to write': short(ours.mid / write.mid),
    'ratio to coalesced': short(ours.mid / coalesce.mid),
    'frames/s': Math.round(median(samples.gateway.map((one) => one.framesPerS)).mid),
    'RSS KB/joiner': short(median(samples.gateway.map((one) => one.rssPerJoiner)).mid / 1024)
  }
}

export async function fanout(options: { quick: boolean; joiners: number | null }): Promise<void> {
  const counts = options.joiners === null ? (options.quick ? [10, 100] : [1, 10, 100, 1000]) : [options.joiners]
  const repeats = options.quick ? 1 : 3
  const rows: Row[] = []
  for (const joiners of counts) {
    rows.push(await row(joiners, 100, repeats, options.quick ? 100 : 300))
    rows.push(await row(joiners, 0, repeats, joiners >= 1000 ? 1600 : 8000))
  }
  report('What does one delivered frame cost, with many joiners on one run?', { repeats, size: SIZE }, rows)
}
