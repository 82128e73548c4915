// A disk that takes no more writes, under a server that runs: it is full, or it has failed and is read-only. Nobody is told that
// anything is stored which is not, and when the disk takes writes again everything goes on by itself.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { startChild } from '../fixtures/child.ts'
import { canSeal, fill, makeRoom, seal, smallDisk, unseal } from '../fixtures/disk.ts'
import {
  type Answer,
  asked,
  at,
  homeOf,
  listIn,
  type Options,
  PASSWORD,
  type Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'
import { type Stream, textOf } from '../fixtures/stream.ts'

const AUTH = '/api/v1/auth'
const DISK_MB = 48
const MODES = { stream_mode: ['messages-tuple'] }
/** How long the end of a run may wait for the store before its readers are reset, in ms. */
const SETTLE_MS = 1500
const RUNS = 6
const DELTAS = 500
/** Deltas before the trouble. */
const SAID = 40
const GATE = 'the trouble has begun'
/** More than may wait in memory, so that its agent has to pause. */
const FLOOD = 60_000

interface Talk {
  readonly threadId: string
  readonly path: string
}

function wordsUpTo(count: number): string {
  return Array.from({ length: count }, (_, n) => `d${n} `).join('')
}

/** A run that has ended before the disk failed, and what is kept of it. */
async function said(person: Person): Promise<Talk & { readonly kept: string }> {
  const threadId = await person.thread()
  const stream = await person.stream(threadId, scripted({ deltas: 50 }), MODES)
  await stream.whole()
  return { threadId, path: stream.runPath, kept: await keptOf(person, { threadId, path: stream.runPath }) }
}

/** All that can be asked for of an ended run. */
async function keptOf(person: Person, { threadId, path }: Talk): Promise<string> {
  const answers = [
    await person.get(path),
    await person.get(`/api/threads/${threadId}/state`),
    await person.get(`${path}/events`)
  ]
  const frames = await (await person.join(path, null, MODES.stream_mode)).whole()
  return JSON.stringify([answers.map(({ status, body }) => [status, body]), frames])
}

function isReady(person: Person): Promise<boolean> {
  return person.get('/readyz').then(({ status }) => status === 200)
}

function refused(t: Test, answer: Answer, what: string): void {
  t.equal(answer.status, 503, `${what} is refused: ${answer.text}`)
  t.match(textIn(answer.body, 'detail'), /database|Not ready|disk/, 'and told why')
  t.notMatch(answer.text, /\/tmp/, 'but not where')
  t.ok(Number(answer.headers.get('retry-after')) > 0, 'and when to try again')
}

/** The text of the answer in the state of a thread. */
async function answerOf(person: Person, threadId: string): Promise<string> {
  const messages = listIn((await person.get(`/api/threads/${threadId}/state`)).body, 'values', 'messages')
  return textIn(messages.at(-1), 'content')
}

function checkFile(t: Test, home: string): void {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'), { readonly: true })
  t.equal(db.pragma('integrity_check', { simple: true }), 'ok', 'the file is whole')
  const twice = db.prepare('SELECT run_id FROM run_events GROUP BY run_id, k HAVING count(*) > 1').all()
  t.same(twice, [], 'no event is there twice')
  db.close()
}

interface Trouble {
  begin(): void
  end(): void
}

/**
 * What a trouble with the disk of `home` must not do while it lasts, and what must be so when it is over. That streams are broken off
 * with a reset is proved elsewhere: libuv tells of an end where a reset meets bytes that this busy process has not read yet.
 */
async function livesThrough(t: Test, home: string, trouble: Trouble): Promise<void> {
  const model = await startModel()
  t.teardown(() => model.stop())
  const child = await startChild(t, { home, config: configOf(model) })
  const person = await signIn(child)
  const before = [await said(person), await said(person)]
  const talks: Awaited<ReturnType<typeof begun>>[] = []
  for (let i = 0; i < RUNS; i++) talks.push(await begun(person, DELTAS))
  const flood = await begun(person, FLOOD)
  await Promise.all([...talks, flood].map(({ reader }) => reader.untilFrames(SAID)))

  trouble.begin()
  const taken = await takenUntilRefused(t, person)
  await until(async () => !(await isReady(person)), 'readiness says so')
  const asking = await refusesAll(t, person, flood)
  // Now the models go on, and have told everything long before the trouble is over.
  model.release(GATE)
  for (const talk of before) t.equal(await keptOf(person, talk), talk.kept, 'what is stored can be read')
  for (const { reader } of talks) t.not(await reader.ended, 'whole', 'readers of runs that would end are broken off')
  for (const { path, reader } of [...talks, flood]) {
    t.notOk(
      reader.frames.some(({ event }) => event === 'end'),
      'nobody was told an end that is not stored'
    )
    t.match((await person.get(path)).body, { status: 'running' })
  }
  const again = await person.join(talks[0]!.path, talks[0]!.reader.lastId, MODES.stream_mode)
  t.not(await again.ended, 'whole', 'who comes back meanwhile is sent away again, in the same time')
  t.equal((await person.get('/health')).status, 200, 'the process is well')

  trouble.end()
  await until(() => isReady(person), 'it is ready again, by itself')
  for (const talk of [...talks, flood]) await isWhole(t, person, talk)
  for (const talk of before) t.equal(await keptOf(person, talk), talk.kept, 'what was stored is as it was')
  for (const path of taken) t.equal((await person.get(path)).status, 200, 'what was taken is there')
  for (const path of asking) t.equal((await person.get(path)).status, 404, 'what was refused has left nothing behind')
  const next = await person.post(`/api/threads/${talks[0]!.threadId}/runs/wait`, asked(scripted({ deltas: 3 })))
  t.equal(at(listIn(next.body, 'messages').at(-1), 'content'), wordsUpTo(3), 'conversations go on')
  t.notOk(child.hasExited, 'the process is the same')
  t.same(await child.stop(), { code: 0, signal: null })
  checkFile(t, home)
}

/** A run whose model waits in the middle of its answer. */
async function begun(person: Person, deltas: number): Promise<Talk & { reader: Stream; deltas: number }> {
  const threadId = await person.thread()
  const words = scripted({ deltas, gate: GATE, gateAfter: SAID })
  const reader = await person.stream(threadId, words, MODES)
  return { threadId, path: reader.runPath, reader, deltas }
}

function configOf({ baseUrl }: FakeModel): Options {
  const models = [{ name: 'main', provider: 'openai', base_url: baseUrl, api_key: 'k', model: 'fixture' }]
  return { models, title: { enabled: false }, memory: { enabled: false }, streams: { settle_timeout_ms: SETTLE_MS } }
}

/** The paths of what was still taken: a full disk has some space left in files that are there. */
async function takenUntilRefused(t: Test, person: Person): Promise<string[]> {
  const taken: string[] = []
  for (;;) {
    const answer = await person.post('/api/threads')
    if (answer.status !== 200) {
      refused(t, answer, 'what is asked for in that moment')
      return taken
    }
    taken.push(`/api/threads/${textIn(answer.body, 'thread_id')}`)
  }
}

/** Asks for everything that would have to be stored. Answers the paths under which it could be found, had it been. */
async function refusesAll(t: Test, person: Person, { threadId }: Talk): Promise<string[]> {
  const id = randomUUID()
  refused(t, await person.post('/api/threads', { thread_id: id }), 'a thread')
  refused(t, await person.post(`/api/threads/${threadId}/runs`, asked('x', { multitask_strategy: 'enqueue' })), 'a run')
  refused(t, await person.post('/api/runs/stream', asked('x')), 'a run without a thread')
  refused(t, await person.ask('PATCH', `/api/threads/${threadId}`, { body: { metadata: { a: 1 } } }), 'a change')
  refused(t, await person.post(`${AUTH}/register`, { email: 'late@example.com', password: PASSWORD }), 'an account')
  return [`/api/threads/${id}`]
}

/** A run that the trouble has met ends as if there had been none: for who comes back, for who comes late, and in what is kept. */
async function isWhole(t: Test, person: Person, { threadId, path, reader, deltas }: Awaited<ReturnType<typeof begun>>) {
  // The agent of the flood had to pause: its run did not end, and its reader was not reset.
  const isBrokenOff = (await reader.ended) !== 'whole'
  const rest = isBrokenOff ? await (await person.join(path, reader.lastId, MODES.stream_mode)).whole() : []
  const whole = await (await person.join(path, null, MODES.stream_mode)).whole()
  t.strictSame([...reader.frames, ...rest], whole, 'the rest is what was missing')
  t.equal(whole.filter(({ event }) => event === 'end').length, 1)
  t.ok(textOf(whole) === wordsUpTo(deltas), 'all deltas came, each once')
  t.match((await person.get(path)).body, { status: 'success' })
  t.ok((await answerOf(person, threadId)) === wordsUpTo(deltas), 'and are in the state')
}

t.test('a full disk: 503 until there is space again, and nothing is lost', async (t) => {
  const disk = smallDisk(t, DISK_MB)
  if (disk === null) return void t.pass('', { skip: 'mounting is not permitted here' })
  await livesThrough(t, disk, { begin: () => fill(disk), end: () => makeRoom(disk) })
})

t.test('a database that is read-only in mid-run: 503 until it is writable again, and nothing is lost', async (t) => {
  const home = homeOf(t)
  if (!canSeal(home)) return void t.pass('', { skip: 'files cannot be made immutable here' })
  const wal = join(home, 'data', 'colloquy.db-wal')
  t.teardown(() => existsSync(wal) && unseal(wal))
  await livesThrough(t, home, { begin: () => seal(wal), end: () => unseal(wal) })
})
