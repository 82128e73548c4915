// Does a page cost more when there is more behind it? Threads, events and turns, few and many, in one database.
import type { Options } from './options.ts'
import { type Measure, median, type Row, report, short } from './report.ts'
import { Server } from './rig.ts'
import { addEvents, addThreads, seeded } from './seed.ts'
import { conversation } from './state.ts'
import type { TargetName } from './targets.ts'
import { type Call, timesOf } from './timing.ts'

interface Query {
  readonly name: string
  readonly small: Call
  readonly large: Call
  readonly target?: TargetName
}

export async function pages({ quick, repeats }: Options): Promise<void> {
  const [threads, events, turns] = quick ? [2_000, 20_000, 100] : [100_000, 1_000_000, 2_000]
  const rows: Row[] = []
  const measures: Measure[] = []
  // Two servers: whose threads are few must be somebody who has few.
  const [few, many] = [await Server.gateway(), await Server.gateway()]
  try {
    await seeded(few, (store, user) => addThreads(store, user, 'thread', 100))
    await seeded(many, async (store, user) => {
      await addThreads(store, user, 'thread', threads)
      await addEvents(store, user, 'events-few', 1_000)
      await addEvents(store, user, 'events-many', events)
    })
    const short_ = await conversation(many, 10)
    const long = await conversation(many, turns)
    const get = (path: string): Call => ({ server: many, path })
    const search = (server: Server, body: object): Call => ({ server, path: '/api/threads/search', body })
    const questions: Query[] = [
      {
        name: `threads, newest 50 (100 / ${threads})`,
        small: search(few, { limit: 50 }),
        large: search(many, { limit: 50 }),
        target: 'threads'
      },
      {
        name: 'threads with a metadata value, newest 50',
        small: search(few, { limit: 10, metadata: { project: 3 } }),
        large: search(many, { limit: 10, metadata: { project: 3 } })
      },
      {
        name: `newest 50 messages (1,000 / ${events} events)`,
        small: get('/api/threads/events-few/messages/page?limit=50'),
        large: get('/api/threads/events-many/messages/page?limit=50'),
        target: 'events'
      },
      {
        name: 'events of a run, first 50',
        small: get('/api/threads/events-few/runs/events-few-run/events?limit=50'),
        large: get('/api/threads/events-many/runs/events-many-run/events?limit=50')
      },
      {
        name: `newest 10 messages (10 / ${turns} turns)`,
        small: get(`/api/threads/${short_}/messages/page?limit=10`),
        large: get(`/api/threads/${long}/messages/page?limit=10`),
        target: 'turns'
      },
      {
        name: `newest 10 runs (10 / ${turns} turns)`,
        small: get(`/api/threads/${short_}/runs?limit=10`),
        large: get(`/api/threads/${long}/runs?limit=10`)
      },
      {
        name: `token usage (10 / ${turns} turns)`,
        small: get(`/api/threads/${short_}/token-usage`),
        large: get(`/api/threads/${long}/token-usage`)
      }
    ]
    for (const { name, small, large, target } of questions) {
      const [before, after]: [number[], number[]] = [[], []]
      for (let i = 0; i < repeats; i++) {
        before.push((await timesOf(small, quick ? 20 : 100)).p50)
        after.push((await timesOf(large, quick ? 20 : 100)).p50)
      }
      const ratio = short(median(after).mid / median(before).mid)
      rows.push({ page: name, 'few: p50 ms': median(before).text, 'many: p50 ms': median(after).text, ratio })
      if (target) measures.push({ target, ours: after, floor: before })
    }
  } finally {
    await few.stop()
    await many.stop()
  }
  report('Does a page cost more when there is more behind it?', { repeats, threads, events, turns }, rows, measures)
}
