// What do sign-ins cost those who read streams? 50 a second for 10 s beside 200 runs: passwords are hashed on the threads and
// cores that the streams need [needs N37].
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { median, quantile, type Row, report, short } from './report.ts'
import { Readers, Server, VISITOR } from './rig.ts'
import type { VisitAnswer, VisitOrder } from './visitors.ts'

const RUNS = 200
const PER_SECOND = 50
const SECONDS = 10
/** Deltas a second, as a person reads along. */
const RATE = 30

interface Sample {
  /** Milliseconds from frame to frame, 99 of 100. */
  readonly gapP99: number
  readonly visits: VisitAnswer | null
  readonly loopP99: number
}

async function visit(server: Server): Promise<VisitAnswer> {
  const child = fork(fileURLToPath(new URL('./visitors.js', import.meta.url)))
  try {
    const answer = once(child, 'message')
    child.send({ url: server.url, ...VISITOR, perSecond: PER_SECOND, seconds: SECONDS } satisfies VisitOrder)
    // The only message that visitors.ts sends.
    return (await answer)[0] as VisitAnswer
  } finally {
    child.kill()
  }
}

async function sample(withVisitors: boolean): Promise<Sample> {
  // They stream while visitors come, and until the last of those has been answered or nearly so.
  const script: Script = { deltas: RATE * (SECONDS + 2), size: 20, rate: RATE }
  const server = await Server.gateway()
  const readers = new Readers()
  try {
    const paths = await server.runs(script, RUNS)
    const { done } = await readers.openAll(server, paths, { gaps: true })
    server.go(true)
    const visits = withVisitors ? await visit(server) : null
    const { gapP99, frames } = await done
    if (frames < RUNS * script.deltas) throw new Error(`${frames} frames arrived of ${RUNS * script.deltas}`)
    if (visits && visits.failed > 0) throw new Error(`${visits.failed} sign-ins failed`)
    return { gapP99, visits, loopP99: (await server.usage()).loopP99 }
  } finally {
    readers.stop()
    await server.stop()
  }
}

function row(name: string, samples: readonly Sample[]): Row {
  const visits = samples.flatMap((one) => one.visits ?? [])
  const sum = (of: (answer: VisitAnswer) => number) => visits.reduce((total, answer) => total + of(answer), 0)
  const ms = visits.flatMap((answer) => answer.ms)
  return {
    '': name,
    'frame to frame p99 ms': median(samples.map((one) => one.gapP99)).text,
    'loop delay p99 ms': median(samples.map((one) => one.loopP99)).text,
    'signed in': sum((answer) => answer.passed),
    'sent away (429)': sum((answer) => answer.refused),
    'sign-in p50 ms': ms.length ? short(quantile(ms, 0.5)) : ''
  }
}

export async function logins({ repeats }: Options): Promise<void> {
  const [without, beside]: [Sample[], Sample[]] = [[], []]
  // Interleaved, so that a slow minute of the machine is everybody's.
  for (let i = 0; i < repeats; i++) {
    without.push(await sample(false))
    beside.push(await sample(true))
  }
  const gaps = (samples: readonly Sample[]) => samples.map((one) => one.gapP99)
  report(
    'What do sign-ins cost those who read streams?',
    { repeats, runs: RUNS, rate: RATE, loginsPerSecond: PER_SECOND, seconds: SECONDS },
    [row('without sign-ins', without), row(`${PER_SECOND} sign-ins a second`, beside)],
    [{ target: 'logins', ours: gaps(beside), floor: gaps(without) }]
  )
}
