// What do the state and the history of a long thread cost, against reading, parsing and writing that much JSON?
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { type Measure, median, type Row, report, short } from './report.ts'
import { asking, Server } from './rig.ts'
import type { TargetName } from './targets.ts'
import { type Call, timesOf } from './timing.ts'

const TURN: Script = { deltas: 10, size: 60, rate: 0, atOnce: true }

/** A thread of so many turns, each a question and an answer. */
export async function conversation(server: Server, turns: number): Promise<string> {
  const thread = await server.thread()
  for (let turn = 0; turn < turns; turn++) {
    const answer = await server.post(`/api/threads/${thread}/runs/wait`, asking(TURN))
    if (!answer.ok) throw new Error(`turn ${turn}: ${answer.status}`)
    await answer.arrayBuffer()
  }
  return thread
}

/** A floor that answers with this text. */
async function floorOf(text: string, folder: string): Promise<Server> {
  const file = join(folder, `${text.length}.db`)
  const db = new Sqlite(file)
  db.exec('CREATE TABLE IF NOT EXISTS answer (text TEXT)')
  db.prepare('DELETE FROM answer').run()
  db.prepare('INSERT INTO answer VALUES (?)').run(text)
  db.close()
  return Server.floor({ floor: 'json', script: TURN, file })
}

export async function state({ quick, repeats }: Options): Promise<void> {
  const sizes = quick ? [10, 100] : [10, 2000]
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const ours = await Server.gateway()
  const rows: Row[] = []
  const measures: Measure[] = []
  try {
    for (const turns of sizes) {
      const thread = await conversation(ours, turns)
      const asked: readonly (readonly [TargetName, Call])[] = [
        ['state', { server: ours, path: `/api/threads/${thread}/state` }],
        ['history', { server: ours, path: `/api/threads/${thread}/history`, body: { limit: 10 } }]
      ]
      for (const [target, call] of asked) {
        const { text } = await timesOf(call, 1)
        const floor = await floorOf(text, folder)
        const [mine, bare]: [number[], number[]] = [[], []]
        for (let i = 0; i < repeats; i++) {
          mine.push((await timesOf(call, quick ? 10 : 50)).p50)
          bare.push((await timesOf({ server: floor, path: '/' }, quick ? 10 : 50)).p50)
        }
        await floor.stop()
        const ratio = short(median(mine).mid / median(bare).mid)
        const [p50, floorP50] = [median(mine).text, median(bare).text]
        rows.push({
          turns,
          what: target,
          KB: short(text.length / 1000),
          'p50 ms': p50,
          'floor p50 ms': floorP50,
          ratio
        })
        if (turns === sizes.at(-1)) measures.push({ target, ours: mine, floor: bare })
      }
    }
  } finally {
    await ours.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  report('What do state and history cost, against that much JSON?', { repeats, ...TURN }, rows, measures)
}
