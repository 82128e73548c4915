// Is the event loop free while 200 runs stream at a human pace, stored in SQLite?
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { median, type Row, report } from './report.ts'
import { Readers, Server } from './rig.ts'

const RUNS = 200
const RATE = 50
const TICK_MS = 20

interface Sample {
  readonly loopP99: number
  readonly gapP99: number
}

async function sample(isOurs: boolean, script: Script): Promise<Sample> {
  const server = isOurs ? await Server.gateway() : await Server.floor({ floor: 'ticker', script, tickMs: TICK_MS })
  const readers = new Readers()
  try {
    const paths = isOurs ? await server.runs(script, RUNS) : Array.from({ length: RUNS }, () => '/')
    const { done } = await readers.openAll(server, paths, { gaps: true })
    server.go(true)
    const { gapP99, frames } = await done
    if (frames < RUNS * script.deltas) throw new Error(`${frames} frames arrived of ${RUNS * script.deltas}`)
    return { gapP99, loopP99: (await server.usage()).loopP99 }
  } finally {
    readers.stop()
    await server.stop()
  }
}

export async function loopDelay({ quick, repeats }: Options): Promise<void> {
  const script: Script = { deltas: RATE * (quick ? 2 : 10), size: 20, rate: RATE }
  const [ours, floor]: [Sample[], Sample[]] = [[], []]
  for (let i = 0; i < repeats; i++) {
    ours.push(await sample(true, script))
    floor.push(await sample(false, script))
  }
  const loop = (samples: readonly Sample[]) => samples.map((one) => one.loopP99)
  const row = (name: string, samples: readonly Sample[]): Row => ({
    '': name,
    'loop delay p99 ms': median(loop(samples)).text,
    'frame to frame p99 ms': median(samples.map((one) => one.gapP99)).text
  })
  report(
    'Is the event loop free while many runs stream?',
    { repeats, runs: RUNS, ...script },
    [row('ours', ours), row('floor', floor)],
    [{ target: 'loop', ours: loop(ours), floor: loop(floor) }]
  )
}
