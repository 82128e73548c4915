// What does a reader cost to whom nothing is sent: to let it in, to keep it, and to tell it that we are still there?
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { type Measure, median, type Row, report, short } from './report.ts'
import { Readers, Server } from './rig.ts'

const SCRIPT: Script = { deltas: 1, size: 20, rate: 0 }
const HEARTBEAT_MS = 1000
const WATCHED_MS = 5000
/** The part of the readers that come first as well, stay, and are not counted: code is compiled, pools are filled. */
const WARM_UP = 0.4

interface Sample {
  readonly kbPerReader: number
  readonly usPerJoin: number
  readonly usPerHeartbeat: number
}

async function sample(isOurs: boolean, count: number): Promise<Sample> {
  const server = isOurs
    ? await Server.gateway({ streams: { heartbeat_ms: HEARTBEAT_MS } })
    : await Server.floor({ floor: 'silent', script: SCRIPT, tickMs: HEARTBEAT_MS })
  const [first, readers] = [new Readers(), new Readers()]
  try {
    const path = isOurs ? await server.run(SCRIPT) : '/'
    await first.open(server, path, count * WARM_UP)
    const before = await server.usage()
    await readers.open(server, path, count)
    const joined = await server.usage()
    await new Promise((resolve) => setTimeout(resolve, WATCHED_MS))
    const after = await server.usage()
    const beats = (count * (1 + WARM_UP) * WATCHED_MS) / HEARTBEAT_MS
    return {
      kbPerReader: (after.rss - before.rss) / 1024 / count,
      usPerJoin: (joined.cpu - before.cpu) / count,
      usPerHeartbeat: (after.cpu - joined.cpu) / beats
    }
  } finally {
    server.go()
    first.stop()
    readers.stop()
    await server.stop()
  }
}

export async function idle({ quick, repeats, joiners }: Options): Promise<void> {
  const count = joiners ?? (quick ? 500 : 5000)
  const [ours, floor]: [Sample[], Sample[]] = [[], []]
  for (let i = 0; i < repeats; i++) {
    ours.push(await sample(true, count))
    floor.push(await sample(false, count))
  }
  const row = (name: string, samples: readonly Sample[]): Row => ({
    '': name,
    'memory KB': median(samples.map((one) => one.kbPerReader)).text,
    'join us': median(samples.map((one) => one.usPerJoin)).text,
    'heartbeat us': median(samples.map((one) => one.usPerHeartbeat)).text
  })
  const measures: Measure[] = [
    { target: 'idle', ours: ours.map((one) => one.kbPerReader), floor: floor.map((one) => one.kbPerReader) },
    { target: 'join', ours: ours.map((one) => one.usPerJoin), floor: floor.map((one) => one.usPerJoin) }
  ]
  const configuration = { repeats, readers: count, heartbeatMs: HEARTBEAT_MS, watchedS: short(WATCHED_MS / 1000) }
  report(
    'What does a reader cost to whom nothing is sent?',
    configuration,
    [row('ours', ours), row('floor', floor)],
    measures
  )
}
