// What does it cost the server to deliver one frame to one joiner, when a run has many?
import type { Script } from './agent.ts'
import type { Floor } from './floors.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import type { Asked } from './readers.ts'
import { Readers, Server } from './rig.ts'
import { mean, roundsOf, type Sample } from './rounds.ts'
import type { TargetName } from './targets.ts'

const SIZE = 60
const RATE = 100

/** How readers read: a run as a stream, its thread in the words of protocol v2, by either transport, or the run as other protocols say it. */
export type Transport = 'run' | 'events' | 'websocket' | 'responses' | 'chat' | 'ag-ui'

export interface Candidate {
  readonly floor?: Floor
  /** Default: a run. Several: readers of each in turn. */
  readonly transport?: Transport | readonly Transport[]
  /** Only what is stored is shown. */
  readonly isSync?: boolean
  readonly tickMs?: number
  /** Of the gateway. */
  readonly coalesceMs?: number
}

function start({ floor, tickMs, coalesceMs }: Candidate, script: Script): Promise<Server> {
  if (floor) return Server.floor({ floor, script, tickMs })
  return Server.gateway(coalesceMs === undefined ? {} : { streams: { coalesce_ms: coalesceMs } })
}

/** What a reader asks for. Some have no end, or none that readers know: it has had enough when it has all deltas. */
function readingOf(transport: Transport, run: string, { deltas }: Script): Asked {
  const [, thread = '', id = ''] = /threads\/(.*)\/runs\/(.*)\/stream/.exec(run) ?? []
  const channels = ['messages']
  const event = { until: deltas, mark: '"event_id"' }
  const delta = { until: deltas, mark: '"delta":' }
  switch (transport) {
    case 'run':
      return { path: run }
    case 'events':
      return { ...event, path: `/api/threads/${thread}/stream/events`, body: JSON.stringify({ channels }) }
    case 'websocket': {
      const says = JSON.stringify({ id: 1, method: 'subscription.subscribe', params: { channels } })
      return { ...event, path: `/api/threads/${thread}/stream/events`, says }
    }
    case 'responses':
      return { ...delta, path: `/v1/responses/resp_${id.replaceAll('-', '')}?stream=true` }
    case 'chat':
      return { ...delta, path: `/api/ai/chat/${thread}/stream` }
    case 'ag-ui':
      return { ...delta, path: `/api/agui/threads/${thread}/runs/${id}` }
  }
}

/** One round: the readers come, the run streams and ends. */
async function sample(
  { floor, transport = 'run', isSync = false }: Candidate,
  server: Server,
  joiners: number,
  script: Script
): Promise<Sample> {
  const readers = new Readers()
  try {
    const path = floor ? '/' : await server.run(script, { isSync })
    const readings = [transport].flat().map((one) => readingOf(one, path, script))
    const all = Array.from({ length: joiners }, (_, i) => readings[i % readings.length]!)
    const { done } = await readers.ask(server, all, { ages: script.isStamped === true })
    const before = await server.usage()
    const began = performance.now()
    server.go()
    const { frames, ages } = await done
    const wallMs = performance.now() - began
    const after = await server.usage()
    const wanted = script.deltas * joiners
    if (frames < wanted) throw new Error(`${floor ?? 'gateway'}: ${frames} frames arrived of ${wanted}`)
    return {
      cpuPerFrame: (after.cpu - before.cpu) / wanted,
      storePerFrame: (after.store - before.store) / wanted,
      framesPerS: wanted / (wallMs / 1000),
      ageMs: quantile(ages, 0.5)
    }
  } finally {
    readers.stop()
  }
}

export type Samples = Readonly<Record<string, readonly Sample[]>>

/** All of them in turn, so that a slow minute of the machine is everybody's. */
export async function samplesOf(
  candidates: Readonly<Record<string, Candidate>>,
  joiners: number,
  script: Script,
  { repeats, quick }: Options
): Promise<Samples> {
  const samples = Object.fromEntries(Object.keys(candidates).map((name): [string, Sample[]] => [name, []]))
  const servers: (readonly [string, Candidate, Server])[] = []
  try {
    for (const [name, candidate] of Object.entries(candidates))
      servers.push([name, candidate, await start(candidate, script)])
    const { warmUp, each } = roundsOf(script)
    for (const [, candidate, server] of servers)
      await mean(quick ? 1 : warmUp, () => sample(candidate, server, joiners, script))
    for (let i = 0; i < repeats; i++)
      for (const [name, candidate, server] of servers)
        samples[name]?.push(await mean(each, () => sample(candidate, server, joiners, script)))
    return samples
  } finally {
    for (const [, , server] of servers) await server.stop()
  }
}

export const cpu = (samples: readonly Sample[] = []) => samples.map((one) => one.cpuPerFrame)

function row(joiners: number, rate: number | string, samples: Samples): Row {
  const { ours = [], write, sock, joined } = samples
  const text = (list: readonly Sample[] | undefined) => (list ? median(cpu(list)).text : '')
  const ratio = (list: readonly Sample[] | undefined) =>
    list ? short(median(cpu(ours)).mid / median(cpu(list)).mid) : ''
  return {
    joiners,
    'rate/s': rate,
    'ours us/frame': text(ours),
    'store us/frame': short(median(ours.map((one) => one.storePerFrame)).mid),
    'floor res.write': text(write),
    'floor socket.write': text(sock),
    'floor joined': text(joined),
    'to socket.write': ratio(sock),
    'to joined': ratio(joined),
    'frames/s': Math.round(median(ours.map((one) => one.framesPerS)).mid)
  }
}

function measure(target: TargetName, ours: readonly Sample[] = [], floor: readonly Sample[] = []): Measure {
  return { target, ours: cpu(ours), floor: cpu(floor) }
}

const PACED = {
  ours: {},
  write: { floor: 'write' },
  sock: { floor: 'sock' },
  joined: { floor: 'coalesce', tickMs: 50 }
} as const
const FLAT = { ours: {}, write: { floor: 'write' }, sock: { floor: 'sock' }, joined: { floor: 'coalesce' } } as const

export async function fanout(options: Options): Promise<void> {
  const { quick, repeats, joiners: given } = options
  const counts = given === null ? (quick ? [10, 100] : [1, 10, 100, 1000, 5000]) : [given]
  const seconds = quick ? 1 : 3
  const rows: Row[] = []
  const measures: Measure[] = []
  for (const joiners of counts) {
    const isBurst = joiners >= 5000
    const paced: Script = { deltas: RATE * seconds, size: SIZE, rate: RATE }
    const burst = { ours: {}, joined: { floor: 'coalesce', tickMs: 100 } } as const
    const samples = await samplesOf(isBurst ? burst : PACED, joiners, paced, options)
    rows.push(row(joiners, RATE, samples))
    if (joiners === 100) measures.push(measure('fanout-100', samples.ours, samples.sock))
    if (joiners === 1000) measures.push(measure('fanout-1000', samples.ours, samples.joined))
    if (isBurst) {
      measures.push(measure('fanout-5000', samples.ours, samples.joined))
      continue
    }
    if (joiners === 100) {
      const gathered = await samplesOf({ ours: { coalesceMs: 50 }, joined: PACED.joined }, joiners, paced, options)
      rows.push(row(joiners, `${RATE}, gathered`, gathered))
      measures.push(measure('fanout-100-gathered', gathered.ours, gathered.joined))
    }
    const flat = await samplesOf(FLAT, joiners, { deltas: joiners >= 1000 ? 1600 : 8000, size: SIZE, rate: 0 }, options)
    rows.push(row(joiners, 'flat out', flat))
    if (joiners === 100) {
      const rate = (list: readonly Sample[] = []) => list.map((one) => one.framesPerS)
      measures.push(measure('fanout-flat', flat.ours, flat.joined))
      measures.push({ target: 'fanout-flat-rate', ours: rate(flat.ours), floor: rate(flat.joined) })
    }
  }
  report(
    'What does one delivered frame cost, with many joiners on one run?',
    { repeats, size: SIZE, seconds },
    rows,
    measures
  )
}
