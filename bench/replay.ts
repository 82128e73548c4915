// How fast does a finished run of 10,000 frames reach somebody who comes late? Nothing of it is in memory.
import type { Script } from './agent.ts'
import { median, quantile, type Row, report, short } from './report.ts'
import { Readers, Server } from './rig.ts'

const SCRIPT: Script = { deltas: 10_000, size: 60, rate: 0 }

interface Sample {
  readonly cpuPerFrame: number
  readonly mbPerS: number
  readonly firstMs: number
  readonly wallMs: number
}

async function sample(server: Server, path: string, joiners: number): Promise<Sample> {
  const readers = new Readers()
  try {
    // A turn of the readers' process that is not measured: it warms up with the server.
    await (await readers.open(server, path, 1)).done
    const before = await server.usage()
    const { bytes, firstMs, wallMs } = await (await readers.open(server, path, joiners)).done
    const after = await server.usage()
    return {
      cpuPerFrame: (after.cpu - before.cpu) / (SCRIPT.deltas * joiners),
      mbPerS: bytes / 1e6 / (wallMs / 1000),
      firstMs: quantile(firstMs, 0.5),
      wallMs
    }
  } finally {
    readers.stop()
  }
}

async function finished(server: Server): Promise<string> {
  const path = await server.run(SCRIPT)
  server.go()
  await (await server.get(path)).arrayBuffer()
  // Until the frames of the run are compressed, as they are for whoever comes later.
  await new Promise((resolve) => setTimeout(resolve, 500))
  return path
}

export async function replay(options: { quick: boolean }): Promise<void> {
  const repeats = options.quick ? 1 : 5
  const ours = await Server.start('gateway', SCRIPT)
  const floor = await Server.start('floor:slab', SCRIPT)
  const rows: Row[] = []
  try {
    const path = await finished(ours)
    for (const joiners of [1, 10]) {
      const samples: Sample[] = []
      const floors: Sample[] = []
      for (let i = 0; i < repeats; i++) {
        samples.push(await sample(ours, path, joiners))
        floors.push(await sample(floor, '/', joiners))
      }
      const pick = (list: Sample[], name: keyof Sample) => median(list.map((one) => one[name]))
      rows.push({
        joiners,
        'CPU us/frame': pick(samples, 'cpuPerFrame').text,
        'floor (slabs in memory)': pick(floors, 'cpuPerFrame').text,
        ratio: short(pick(samples, 'cpuPerFrame').mid / pick(floors, 'cpuPerFrame').mid),
        'MB/s': short(pick(samples, 'mbPerS').mid),
        'first frame ms': short(pick(samples, 'firstMs').mid),
        'all frames ms': short(pick(samples, 'wallMs').mid)
      })
    }
  } finally {
    await ours.stop()
    await floor.stop()
  }
  report('What does a replayed frame cost, read from the store?', { repeats, ...SCRIPT }, rows)
}
