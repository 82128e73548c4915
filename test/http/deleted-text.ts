// What was deleted through the API stands in no byte of the home: not in the database file or its log, not in files of JSON lines, not beside.
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { truncateWal } from '../../lib/store/sqlite/connection.ts'
import { upload } from '../fixtures/form.ts'
import { asked, homeOf, listIn, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'
import { filesWith } from '../fixtures/remains.ts'

const SECRET = 'zaphod-was-here'
const SKILL = 'secret-keeper'
const NAMESPACE = ['notes']

/** Those of runs that delete their thread are in no list while they wait for a reader who was cut off. */
function threadsIn(home: string): number {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'), { readonly: true })
  const count = db.prepare<[], number>('SELECT count(*) FROM threads_meta').pluck().get()
  db.close()
  return count ?? 0
}

/** What a text looks like in frames that are compressed. */
function packedFrames(home: string): Buffer[] {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'), { readonly: true })
  const rows = db.prepare<[], Buffer>('SELECT data FROM frames').pluck().all()
  db.close()
  // Beyond the head, which many have in common; long enough to be no other's.
  return rows.map((data) => data.subarray(16, 64)).filter(({ length }) => length === 48)
}

/** As the server does within a quarter of an hour, and `colloquy prune --now` at once. */
async function emptyLog(home: string): Promise<void> {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'))
  await until(() => truncateWal(db), 'the log is empty')
  db.close()
}

async function asAdmin(url: string): Promise<Person> {
  const person = new Person(url)
  const account = { email: 'root@example.com', password: PASSWORD }
  const { status, text } = await person.post('/api/v1/auth/initialize', account)
  if (status !== 201) throw new Error(`initialize answered ${status}: ${text}`)
  return person
}

async function done(answer: ReturnType<Person['ask']>): Promise<unknown> {
  const { status, text, body } = await answer
  if (status >= 300) throw new Error(`answered ${status}: ${text}`)
  return body
}

/** Says it wherever somebody can; returns how all of it is deleted. */
async function say(person: Person, home: string): Promise<() => Promise<void>> {
  const thread = textIn(await done(person.post('/api/threads', { metadata: { about: SECRET } })), 'thread_id')
  const path = `/api/threads/${thread}`
  await done(upload(person, thread, [[`${SECRET}.txt`, SECRET.repeat(500)]]))
  const args = JSON.stringify({ path: 'report.md', content: `${SECRET} `.repeat(50) })
  const stream = await person.stream(thread, `/demo tool=write_file deltas=20 rate=0 args=${args}`)
  await stream.whole()
  await (await person.stream(thread, `/demo error deltas=3 rate=0 ${SECRET}`)).whole()
  const rolledBack = await person.stream(thread, `/demo deltas=9999 rate=100 ${SECRET}`)
  await rolledBack.untilFrames(1)
  await done(person.post(`${rolledBack.runPath}/cancel?wait=true&action=rollback`))
  await done(person.ask('PUT', `${stream.runPath}/feedback`, { body: { rating: 1, comment: SECRET } }))
  const values = { messages: [{ role: 'user', content: SECRET.repeat(1000) }], title: SECRET }
  await done(person.post(`${path}/state`, { values }))
  const headers = { 'idempotency-key': SECRET }
  await done(person.post(`${path}/runs/wait`, asked(`/demo deltas=3 rate=0 ${SECRET}`), { headers }))
  await done(person.post(`${path}/runs/crons`, { ...asked(SECRET), schedule: '0 0 29 2 *' }))
  await done(person.post(`${path}/copy`))
  for (const on_completion of ['keep', 'delete'])
    await done(person.post('/api/runs/wait', asked(`/demo deltas=3 rate=0 ${SECRET}`, { on_completion })))
  await done(person.ask('PUT', '/api/store/items', { body: { namespace: NAMESPACE, key: SECRET, value: { SECRET } } }))
  const assistant = await done(person.post('/api/assistants', { graph_id: 'lead_agent', name: SECRET }))
  await done(person.post('/api/memory/facts', { content: SECRET }))
  mkdirSync(join(home, 'skills', 'custom', SKILL), { recursive: true })
  const skill = `---\nname: ${SKILL}\ndescription: ${SECRET}\n---\n${SECRET}\n`
  writeFileSync(join(home, 'skills', 'custom', SKILL, 'SKILL.md'), skill)
  await done(person.ask('PUT', `/api/skills/custom/${SKILL}`, { body: { content: `${skill}more` } }))
  return async () => {
    const threads = listIn(await done(person.post('/api/threads/search', {})))
    for (const one of threads) await done(person.ask('DELETE', `/api/threads/${textIn(one, 'thread_id')}`))
    await done(person.ask('DELETE', '/api/store/items', { body: { namespace: NAMESPACE, key: SECRET } }))
    await done(person.ask('DELETE', `/api/assistants/${textIn(assistant, 'assistant_id')}`))
    await done(person.ask('DELETE', '/api/memory'))
    await done(person.ask('DELETE', `/api/skills/custom/${SKILL}`))
  }
}

for (const backend of ['db', 'jsonl'])
  t.test(`when all was deleted, no file has a text of it (events in ${backend})`, async (t) => {
    const home = homeOf(t)
    const site = await openSite(t, { home, config: { run_events: { backend }, runs: { temporary_grace_ms: 1 } } })
    const person = await asAdmin(site.url)
    const remove = await say(person, home)
    await until(() => site.sizes().uncompacted === 0, 'frames are compacted')

    const before = filesWith(home, [SECRET])
    t.ok(
      before.some((name) => /^data\/colloquy\.db(-wal)?$/.test(name)),
      'it was in the database'
    )
    t.match(
      before.filter((name) => name.endsWith('.jsonl')).sort(),
      backend === 'db' ? [/^skills\/history\//] : [/^skills\/history\//, /^threads\/.+\/runs\//],
      'and in every kind of file with JSON lines that there is'
    )
    // What a start sets aside that does not know it goes too.
    const events = before.find((name) => /^threads\/.+\.jsonl$/.test(name))
    if (events) copyFileSync(join(home, events), join(home, events.replace(/jsonl$/, '1.disputed')))
    const packed = packedFrames(home)
    t.ok(packed.length > 0)

    await remove()
    await until(() => threadsIn(home) === 0, 'the thread of a stateless run is gone')
    await until(() => !filesWith(home, [SECRET]).some(isBesideDatabase), 'files beside the database are gone')
    await emptyLog(home)
    t.strictSame(filesWith(home, [SECRET, ...packed]), [])
    await site.stop()
    t.strictSame(filesWith(home, [SECRET, ...packed]), [], 'nor does the stop write any')
  })

function isBesideDatabase(name: string): boolean {
  return !name.startsWith('data/')
}
