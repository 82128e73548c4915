// Deeds of jobs that come at the wrong time: set by a clock that was ahead, of a thread that is gone, or of one with a run in flight.
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import type { Store } from '../../lib/store/store.ts'
import { timestamp } from '../../lib/base/types.ts'
import { write } from '../contract/harness.ts'
import { asked, openSite, type Person, type Site, signIn, textIn, until } from '../fixtures/gateway.ts'

const HOUR_MS = 3_600_000
const NEVER = '0 0 29 2 *'

async function house(t: Test): Promise<{ site: Site; person: Person; store: Store }> {
  let store!: Store
  const behind = (opened: Store) => {
    store = opened
    return opened
  }
  const site = await openSite(t, { behind })
  return { site, person: await signIn(site), store }
}

/** As an operator would, by hand. */
function sql({ home }: Site, text: string, ...params: readonly string[]): void {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'))
  db.prepare(text).run(...params)
  db.close()
}

const cronOf = async (person: Person, schedule: string, path = '/api/runs/crons') =>
  textIn((await person.post(path, { ...asked('/demo deltas=1 rate=0'), schedule })).body, 'cron_id')

t.test('what a clock has set that was ahead is set again, and not done before its time', async (t) => {
  const { site, person, store } = await house(t)
  const thread = await person.thread()
  await person.ask('PATCH', `/api/threads/${thread}`, { body: { ttl: 30 } })
  const cron = await cronOf(person, '*/5 * * * *')
  // The clock of the machine is set back by two hours.
  const [due, set] = [timestamp(Date.now() + 2.5 * HOUR_MS), timestamp(Date.now() + 2 * HOUR_MS)]
  sql(site, 'UPDATE jobs SET due_at = ?, set_at = ?', due, set)
  const inMs = async (kind: 'turn' | 'removal', key: string) =>
    Date.parse((await store.jobs.get(kind, key))?.due_at ?? '') - Date.now()
  await until(async () => (await inMs('turn', cron)) <= 300_000, 'the turn is in five minutes at most')
  await until(async () => (await inMs('removal', thread)) <= HOUR_MS, 'the time to live begins anew')
  t.ok((await inMs('removal', thread)) > 1_000_000)
  t.ok(await store.threads.get(thread, null))
  const user = (await store.threads.get(thread, null))!.user_id!
  t.strictSame(await store.threads.idsOf(user, 9), [thread], 'no turn has run, whose thread would be there')
})

t.test('a cron whose thread is gone goes at its next turn', async (t) => {
  const { site, person, store } = await house(t)
  const cron = await cronOf(person, NEVER, `/api/threads/${await person.thread()}/runs/crons`)
  sql(site, "UPDATE crons SET thread_id = 'gone' WHERE cron_id = ?", cron)
  sql(site, "UPDATE jobs SET due_at = '2026-01-01T00:00:00.000000+00:00', thread_id = NULL WHERE key = ?", cron)
  await until(async () => (await store.crons.get(cron, null)) === null, 'it is gone')
  t.equal(await store.jobs.get('turn', cron), null)
})

t.test('a thread whose time is over stays as long as a run of it is in flight', async (t) => {
  const { person, store } = await house(t)
  const thread = await person.thread()
  await person.ask('PATCH', `/api/threads/${thread}`, { body: { ttl: 30 } })
  const path = await person.run(thread, '/demo deltas=99999 rate=20')
  await until(async () => (await store.runs.inFlight(thread)).some(({ status }) => status === 'running'), 'it runs')
  const removal = { name: 'job.change', kind: 'removal', key: thread, thread_id: thread, due: 0 } as const
  await write(store, removal)
  const inMs = async () => Date.parse((await store.jobs.get('removal', thread))?.due_at ?? '') - Date.now()
  await until(async () => (await inMs()) > 30_000, 'it will be looked at again')
  t.ok(await store.threads.get(thread, null))
  await person.post(`${path}/cancel?wait=true`)
  await write(store, removal)
  await until(async () => (await store.threads.get(thread, null)) === null, 'then it goes')
})
