// How long from asking for a run to its first piece, for one and for fifty at once?
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { modelConfig } from './many-runs.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { asking, Model, Readers, Server } from './rig.ts'

const SCRIPT: Script = { deltas: 1, size: 20, rate: 0, atOnce: true }
/** Rounds before any that is measured: until the server's code is compiled as it stays. */
const WARM_UP_SERVER = 80
/** Rounds before those of a repeat that are measured: its readers and threads are new. */
const WARM_UP = 20

/** Milliseconds from connecting to the first frame, of every reader of a round. */
async function round(
  server: Server,
  readers: Readers,
  paths: readonly string[],
  mark?: string
): Promise<readonly number[]> {
  const body = JSON.stringify(asking(SCRIPT))
  const { done } = await readers.ask(
    server,
    paths.map((path) => ({ path, body })),
    mark === undefined ? {} : { mark }
  )
  const { firstMs } = await done
  if (firstMs.length < paths.length) throw new Error('a run had no first frame')
  return firstMs
}

/** Times of `count` rounds, in threads of their own. */
async function rounds(
  server: Server,
  atOnce: number,
  count: number,
  warmUp = WARM_UP,
  mark?: string
): Promise<number[]> {
  const readers = new Readers()
  try {
    const threads = await Promise.all(Array.from({ length: atOnce }, () => server.thread().catch(() => '')))
    const paths = threads.map((thread) => `/api/threads/${thread}/runs/stream`)
    const times: number[] = []
    for (let i = 0; i < count + warmUp; i++) {
      const came = await round(server, readers, paths, mark)
      if (i >= warmUp) times.push(...came)
    }
    return times
  } finally {
    readers.stop()
  }
}

export async function firstFrame({ quick, repeats }: Options): Promise<void> {
  const rows: Row[] = []
  const measures: Measure[] = []
  const ours = await Server.gateway()
  const floor = await Server.floor({ floor: 'first', script: SCRIPT })
  try {
    for (const atOnce of [1, 50]) {
      const count = quick ? 5 : atOnce === 1 ? 40 : 10
      const [mine, bare]: [number[][], number[][]] = [[], []]
      if (!quick) for (const server of [ours, floor]) await rounds(server, atOnce, 0, WARM_UP_SERVER)
      for (let i = 0; i < repeats; i++) {
        mine.push(await rounds(ours, atOnce, count))
        bare.push(await rounds(floor, atOnce, count))
      }
      const p50 = (times: readonly number[][]) => times.map((one) => quantile(one, 0.5))
      rows.push({
        'at once': atOnce,
        'p50 ms': median(p50(mine)).text,
        'p99 ms': short(quantile(mine.flat(), 0.99)),
        'floor p50 ms': median(p50(bare)).text,
        'floor p99 ms': short(quantile(bare.flat(), 0.99)),
        samples: mine.flat().length
      })
      measures.push({ target: atOnce === 1 ? 'first-1' : 'first-50', ours: p50(mine), floor: p50(bare) })
    }
  } finally {
    await ours.stop()
    await floor.stop()
  }
  report('How long until the first piece of a new run?', { repeats }, rows, measures)
}

/** Stands in every delta, and in no other frame that a reader of messages gets. */
const DELTA = '"content":'

/** Milliseconds until the first delta of runs of a model that begin at once, p50, of new servers: ours, and a relay. */
export async function firstDeltas(atOnce: number, count: number): Promise<{ ours: number; floor: number }> {
  const model = await Model.start()
  const floor = await Server.floor({ floor: 'relay', script: SCRIPT, model: model.url })
  const ours = await Server.gateway(modelConfig(model.url), true)
  try {
    const of = async (server: Server) => quantile(await rounds(server, atOnce, count, WARM_UP, DELTA), 0.5)
    return { floor: await of(floor), ours: await of(ours) }
  } finally {
    await ours.stop()
    await floor.stop()
    model.stop()
  }
}
