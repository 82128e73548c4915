// The write-ahead log of the database: however much is written, and however slowly somebody reads meanwhile, it is used again and
// does not grow without limit.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t from 'tap'
import { openSite, type Person, type Site, signIn } from '../fixtures/gateway.ts'

/** Written by the runs in all, about, in megabytes. */
const WRITTEN_MB = Number(process.env.WAL_MB ?? 60)
const MB = 1024 * 1024
const AT_ONCE = 6
const DELTA_BYTES = 1000
const DELTAS = 2000
const RUNS = Math.ceil((WRITTEN_MB * MB) / (DELTAS * DELTA_BYTES))
/** It is carried over beside the commits, and by them from 16 MB on; a few batches, of some MB each under this load, come meanwhile. */
const WAL_MB = 64
/** What the file is cut back to when all of it is in the database [lib/store/sqlite/connection.ts]. */
const KEPT_MB = 64
const MODES = { stream_mode: ['messages-tuple'] }

const walOf = (site: Site) => statSync(join(site.home, 'data', 'colloquy.db-wal')).size

/** Runs as fast as they go, `AT_ONCE` of them. Answers the largest size that the log had. */
async function load(site: Site, person: Person, runs: number): Promise<number> {
  let left = runs
  let largest = 0
  const watch = setInterval(() => {
    largest = Math.max(largest, walOf(site))
  }, 10)
  const worker = async () => {
    while (left-- > 0) {
      const stream = await person.stream(
        await person.thread(),
        `/demo deltas=${DELTAS} size=${DELTA_BYTES} rate=0`,
        MODES
      )
      stream.tap(() => {})
      if ((await stream.ended) !== 'whole') throw new Error('a run was not told whole')
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  clearInterval(watch)
  return largest
}

/** Reads a run of long ago a little at a time, again and again, until it is told to stop. */
function slowReader(person: Person, path: string): () => Promise<void> {
  let isOver = false
  const reading = (async () => {
    while (!isOver) {
      const stream = await person.join(path, null, MODES.stream_mode)
      stream.tap(() => {
        stream.stall()
        setTimeout(() => stream.resume(), 20)
      })
      await Promise.race([stream.ended, new Promise((resolve) => setTimeout(resolve, 500))])
      stream.leave()
    }
  })()
  return () => {
    isOver = true
    return reading
  }
}

t.test(`${WRITTEN_MB} MB and slow readers: the log stays below ${WAL_MB} MB`, async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const old = await person.stream(await person.thread(), `/demo deltas=${DELTAS} size=${DELTA_BYTES} rate=0`, MODES)
  old.tap(() => {})
  await old.ended
  const stops = Array.from({ length: 5 }, () => slowReader(person, old.runPath))
  const largest = await load(site, person, RUNS)
  await Promise.all(stops.map((stop) => stop()))
  t.comment(`the log was ${(largest / MB).toFixed(1)} MB at most`)
  t.ok(largest < WAL_MB * MB)
})

t.test('somebody outside who reads for long makes the log grow, and it is used again when that is over', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  await load(site, person, AT_ONCE)
  const outside = new Sqlite(join(site.home, 'data', 'colloquy.db'), { readonly: true })
  outside.exec('BEGIN')
  outside.prepare('SELECT count(*) FROM runs').get()
  const held = await load(site, person, RUNS)
  outside.close()
  const after = await load(site, person, RUNS)
  t.comment(`${(held / MB).toFixed(1)} MB when it was read, ${(after / MB).toFixed(1)} MB at most after that`)
  t.ok(held > WRITTEN_MB * MB, 'nothing of it could be used again')
  // What is written before the first checkpoint comes on top.
  t.ok(after < held + 16 * MB)
  t.ok(walOf(site) <= KEPT_MB * MB, `cut back to ${(walOf(site) / MB).toFixed(1)} MB`)
})
