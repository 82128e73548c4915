// What does a frame cost in the words of protocol v2, over server-sent events and over WebSockets, beside readers of the run itself?
import type { Script } from './agent.ts'
import { type Candidate, cpu, type Samples, samplesOf } from './fanout.ts'
import type { Options } from './options.ts'
import { type Measure, median, type Row, report, short } from './report.ts'

const SIZE = 60
const RATE = 100

const CANDIDATES = {
  run: {},
  sse: { transport: 'events' },
  websocket: { transport: 'websocket' },
  event: { floor: 'event', transport: 'events' },
  ws: { floor: 'websocket', transport: 'websocket' }
} as const satisfies Readonly<Record<string, Candidate>>

function row(joiners: number, rate: number, samples: Samples): Row {
  const mid = (name: keyof typeof CANDIDATES) => median(cpu(samples[name])).mid
  return {
    joiners,
    'rate/s': rate,
    'a run us/frame': median(cpu(samples.run)).text,
    'v2 SSE us/frame': median(cpu(samples.sse)).text,
    'v2 WebSocket us/frame': median(cpu(samples.websocket)).text,
    'floor socket.write': median(cpu(samples.event)).text,
    'floor ws.send': median(cpu(samples.ws)).text,
    'SSE to floor': short(mid('sse') / mid('event')),
    'WebSocket to floor': short(mid('websocket') / mid('ws')),
    'SSE to a run': short(mid('sse') / mid('run')),
    'WebSocket to a run': short(mid('websocket') / mid('run'))
  }
}

function measuresOf(joiners: number, { sse, websocket, event, ws }: Samples): Measure[] {
  if (joiners === 100)
    return [
      { target: 'protocol-sse-100', ours: cpu(sse), floor: cpu(event) },
      { target: 'protocol-websocket-100', ours: cpu(websocket), floor: cpu(ws) }
    ]
  return []
}

export async function protocol(options: Options): Promise<void> {
  const { quick, repeats, joiners: given } = options
  const seconds = quick ? 1 : 3
  const rows: Row[] = []
  const measures: Measure[] = []
  for (const joiners of given === null ? (quick ? [100] : [1, 100, 1000]) : [given]) {
    const paced: Script = { deltas: RATE * seconds, size: SIZE, rate: RATE }
    const samples = await samplesOf(CANDIDATES, joiners, paced, options)
    rows.push(row(joiners, RATE, samples))
    measures.push(...measuresOf(joiners, samples))
  }
  report('What does one delivered frame cost in protocol v2?', { repeats, size: SIZE, seconds }, rows, measures)
}
