// How much disk does a megabyte of answers take, with every frame of every run kept?
import type Database from 'better-sqlite3'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { type Measure, median, type Row, report, short } from './report.ts'
import { asking, Server } from './rig.ts'

interface Sample {
  /** MB on disk for each MB of text. */
  readonly whole: number
  readonly frames: number
}

async function sample(script: Script, runs: number): Promise<Sample> {
  const server = await Server.gateway()
  const db = new Sqlite(server.database, { readonly: true })
  const sizeOf = () => pagesOf(db) / 1e6
  try {
    const text = (runs * script.deltas * script.size) / 1e6
    const before = sizeOf()
    const threads = 10
    for (let i = 0; i < threads; i++) {
      const thread = await server.thread()
      for (let run = 0; run < runs / threads; run++)
        await (await server.post(`/api/threads/${thread}/runs/wait`, asking(script))).arrayBuffer()
    }
    await settled(db)
    const frames = db
      .prepare<[], { bytes: number }>('SELECT sum(length(idx) + length(data)) AS bytes FROM frames')
      .get()
    return { whole: (sizeOf() - before) / text, frames: (frames?.bytes ?? 0) / 1e6 / text }
  } finally {
    db.close()
    await server.stop()
  }
}

/** Bytes of the pages in use: free ones are used again, and the WAL is no part of what is kept. */
function pagesOf(db: Database.Database): number {
  const number = (name: string) => Number(db.pragma(name, { simple: true }))
  return (number('page_count') - number('freelist_count')) * number('page_size')
}

/** Until the frames of every run are compressed, as they stay. */
async function settled(db: Database.Database): Promise<void> {
  const plain = db.prepare<[], { count: number }>('SELECT count(*) AS count FROM frames WHERE format = 1')
  for (let i = 0; i < 100 && (plain.get()?.count ?? 0) > 0; i++)
    await new Promise((resolve) => setTimeout(resolve, 200))
}

export async function storage({ quick, repeats }: Options): Promise<void> {
  const rows: Row[] = []
  const measures: Measure[] = []
  for (const size of [5, 60]) {
    const script: Script = { deltas: 50_000 / size, size, rate: 0, atOnce: true }
    const samples: Sample[] = []
    for (let i = 0; i < repeats; i++) samples.push(await sample(script, quick ? 10 : 40))
    rows.push({
      'characters a delta': size,
      'MB on disk, a MB of text': median(samples.map((one) => one.whole)).text,
      'of them frames': short(median(samples.map((one) => one.frames)).mid)
    })
    if (size === 5)
      measures.push({ target: 'storage', ours: samples.map((one) => one.whole), floor: samples.map(() => 1) })
  }
  report('How much disk does a megabyte of answers take?', { repeats, textKBPerRun: 50 }, rows, measures)
}
