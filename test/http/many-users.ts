// Many users at once, with runs, uploads, memory and titles going on behind their requests. Whatever one of them is
// answered, whatever is logged, shown to a model or written to the disk: nothing of anybody else is in it.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { startEcho } from '../fixtures/echo.ts'
import { type Answer, type AskOptions, asked, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'

const USERS = 20
const REQUESTS = Number(process.env.MANY_USERS_REQUESTS ?? 5000)
const AT_ONCE = 24
/** Stands in every text of a user: `mark-07-x` is of the eighth. */
const MARK = /mark-(\d\d)-\w/g
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g

// ------------------------------------------------------------------------------------------- who owns what

/** Whose an id is: of who was shown it first. An id that somebody else is shown later is a leak. */
class Owners {
  readonly #owners = new Map<string, number>()
  readonly leaks: string[] = []

  own(id: string, user: number): void {
    this.#owners.set(id, user)
  }
  of(id: string): number | undefined {
    return this.#owners.get(id)
  }
  /** Users whose marks and ids are in a text. */
  namedIn(text: string): Set<number> {
    const marks = [...text.matchAll(MARK)].map((found) => Number(found[1]))
    const ids = [...text.matchAll(UUID)].map(([id]) => this.of(id)).filter((user) => user !== undefined)
    return new Set([...marks, ...ids])
  }
  /** What `user` was shown as the answer to `question`, whose own words may come back. */
  shown(user: number, question: string, answer: string): void {
    for (const [mark, owner] of answer.matchAll(MARK)) if (Number(owner) !== user) this.#leak(question, mark, user)
    for (const [id] of answer.matchAll(UUID)) {
      if (question.includes(id)) continue
      const owner = this.of(id)
      if (owner === undefined) this.own(id, user)
      else if (owner !== user) this.#leak(question, id, user)
    }
  }
  #leak(question: string, what: string, user: number): void {
    this.leaks.push(`${question} showed ${what} to user ${user}`)
  }
}

/** One user, with what he has made. */
interface Member {
  readonly no: number
  readonly id: string
  readonly person: Person
  readonly mark: string
  readonly threads: string[]
  /** Paths `/api/threads/T/runs/R`. */
  readonly runs: string[]
}

interface Members {
  readonly members: readonly Member[]
  readonly owners: Owners
  readonly statuses: Map<number, number>
}

async function gather(child: Child): Promise<Members> {
  const owners = new Owners()
  const members: Member[] = []
  for (let no = 0; no < USERS; no++) {
    const mark = `mark-${String(no).padStart(2, '0')}-x`
    const person = await signIn(child, mark)
    const id = textIn((await person.get('/api/v1/auth/me')).body, 'id')
    owners.own(id, no)
    members.push({ no, id, person, mark, threads: [], runs: [] })
  }
  return { members, owners, statuses: new Map() }
}

// ------------------------------------------------------------------------------------------- what they do

/** Numbers that are the same in every life of this test. */
function dice(seed: number): (sides: number) => number {
  let state = seed
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * sides)
  }
}

async function ask(
  crowd: Members,
  member: Member,
  method: string,
  path: string,
  asking: AskOptions = {}
): Promise<Answer> {
  const answer = await member.person.ask(method, path, asking)
  const question = `${method} ${path} ${JSON.stringify(asking.body ?? '')}`
  const headers = [...answer.headers].filter(([name]) => name !== 'set-cookie').join('\n')
  crowd.owners.shown(member.no, question, `${headers}\n${answer.text}`)
  crowd.statuses.set(answer.status, (crowd.statuses.get(answer.status) ?? 0) + 1)
  return answer
}

/** One request of one member, as the dice fall. */
async function step(crowd: Members, roll: (sides: number) => number, i: number): Promise<void> {
  const member = crowd.members[roll(USERS)]!
  const other = crowd.members[(member.no + 1 + roll(USERS - 1)) % USERS]!
  const { mark, threads, runs } = member
  const says = { body: asked(`It is ${mark}, ${i}`) }
  const to = (method: string, path: string, body?: unknown) =>
    ask(crowd, member, method, path, body === undefined ? {} : { body })
  const T = threads.length ? `/api/threads/${threads[roll(threads.length)]}` : null
  const R = runs.length ? runs[roll(runs.length)]! : null
  const foreign = other.threads.length ? `/api/threads/${other.threads[roll(other.threads.length)]}` : '/api/threads/x'
  const foreignRun = other.runs.length ? other.runs[roll(other.runs.length)]! : `${foreign}/runs/x`
  const create = async () => {
    const answer = await to('POST', '/api/threads', { metadata: { mark } })
    threads.push(textIn(answer.body, 'thread_id'))
  }
  const start = async (how: string) => {
    const answer = await ask(crowd, member, 'POST', `${T}/runs${how}`, says)
    const path = answer.headers.get('content-location')
    if (answer.status === 200 && path) runs.push(path)
  }
  const upload = async () => {
    const body = `--b\r\ncontent-disposition: form-data; name="files"; filename="${mark}.txt"\r\n\r\n${mark}\r\n--b--\r\n`
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    await ask(crowd, member, 'POST', `${T}/uploads`, { body, headers })
  }
  if (T === null || threads.length < 2) return create()
  if (R === null) return start('/wait')
  const runId = R.split('/').at(-1)
  const deeds: (() => Promise<unknown>)[] = [
    () => (threads.length < 8 ? create() : to('POST', '/api/threads/search', { metadata: { mark } })),
    () => start(''),
    () => start('/wait'),
    () => start('/stream'),
    () => to('POST', '/api/threads/search', { limit: 100 }),
    () => to('GET', T),
    () => to('PATCH', T, { metadata: { note: mark } }),
    () => to('GET', `${T}/state`),
    () => to('POST', `${T}/state`, { values: { title: `Title ${mark}` } }),
    () => to('POST', `${T}/history`, { limit: 5 }),
    () => to('GET', `${T}/messages`),
    () => to('GET', `${T}/token-usage`),
    () => to('GET', `${T}/runs`),
    () => to('GET', R),
    () => to('GET', `${R}/stream`),
    () => to('GET', `${R}/events`),
    () => to('GET', `/api/runs/${runId}/messages`),
    () => to('PUT', `${R}/feedback`, { rating: 1, comment: mark }),
    () => to('GET', `${R}/feedback/stats`),
    () => to('POST', `${R}/cancel`),
    upload,
    () => to('GET', `${T}/uploads/list`),
    () => to('GET', `${T}/artifacts/mnt/user-data/uploads/${mark}.txt`),
    () => to('GET', '/api/memory'),
    () => to('POST', '/api/memory/facts', { content: `is ${mark}` }),
    () => to('POST', `${T}/suggestions`, { messages: [{ role: 'user', content: mark }] }),
    () => to('GET', '/api/v1/auth/me'),
    () => to('GET', foreign),
    () => to('PATCH', foreign, { metadata: { by: 'somebody' } }),
    () => to('GET', `${foreign}/messages`),
    () => to('GET', foreignRun),
    () => to('GET', `${foreignRun}/stream`),
    () => to('POST', `${foreignRun}/cancel`),
    () => to('GET', `${foreign}/artifacts/mnt/user-data/uploads/${other.mark}.txt`),
    () => to('POST', '/api/threads/search', { ids: other.threads }),
    () => to('GET', `/api/runs/${foreignRun.split('/').at(-1)}/messages`)
  ]
  await deeds[roll(deeds.length)]!()
}

// ------------------------------------------------------------------------------------------- what is left

function pathsBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
}

/** Every path is below the folder of the one it names, and every file there holds words of that one alone. */
function checkDisk(t: Test, { members, owners }: Members, home: string): void {
  const wrong: string[] = []
  for (const path of pathsBelow(home)) {
    const name = relative(home, path)
    const [top, userId] = name.split('/')
    const owner = top === 'users' ? members.find(({ id }) => id === userId)?.no : undefined
    const named = [...owners.namedIn(name)]
    if (named.some((user) => user !== owner)) wrong.push(name)
    if (top !== 'users' || !statSync(path).isFile()) continue
    if ([...owners.namedIn(readFileSync(path, 'utf8'))].some((user) => user !== owner)) wrong.push(`in ${name}`)
  }
  t.strictSame(wrong, [])
}

/** Every row is of the owner of its thread, and holds words of that one alone. */
function checkRows(t: Test, { owners }: Members, file: string): void {
  const db = new Sqlite(file, { readonly: true })
  const wrong: string[] = []
  for (const table of ['threads_meta', 'runs', 'run_events', 'feedback', 'checkpoints', 'checkpoint_bodies']) {
    let count = 0
    // Any row is an object of its columns.
    for (const row of db.prepare(`SELECT * FROM ${table}`).iterate() as Iterable<Record<string, unknown>>) {
      count++
      const found = owners.namedIn(JSON.stringify(row))
      if (found.size !== 1) wrong.push(`${table}: ${JSON.stringify(row).slice(0, 300)}`)
      if ('user_id' in row && owners.of(String(row.user_id)) === undefined) wrong.push(`${table}: nobody's row`)
    }
    t.ok(count > 0, `${table}: ${count} rows were looked at`)
  }
  db.close()
  t.strictSame(wrong, [])
}

t.test(
  `[Isolation] ${USERS} users and ${REQUESTS} requests at the same time: nobody meets anything of another`,
  async (t) => {
    const echo = await startEcho(t, /mark-\d\d-\w/g)
    const model = { name: 'echo', provider: 'openai', base_url: echo.baseUrl, model: 'echo', api_key: 'none' }
    const child = await startChild(t, { config: { models: [model], memory: { debounce_seconds: 1 } } })
    const crowd = await gather(child)
    const roll = dice(7)
    let next = 0
    const work = async () => {
      while (next < REQUESTS) await step(crowd, roll, next++)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))

    t.strictSame(crowd.owners.leaks.slice(0, 20), [], 'answers')
    const failed = [...crowd.statuses].filter(([status]) => status >= 500)
    t.strictSame(failed, [], `statuses ${JSON.stringify([...crowd.statuses])}`)
    t.equal(
      [...crowd.statuses.values()].reduce((sum, count) => sum + count, 0),
      REQUESTS
    )
    t.ok((crowd.statuses.get(404) ?? 0) > REQUESTS / 10, 'many have tried')
    // Learned behind the requests, from a talk of their own.
    const learned = async ({ person, threads }: Member) =>
      listIn((await person.get('/api/memory')).body, 'facts').some((fact) => threads.includes(textIn(fact, 'source')))
    for (const member of crowd.members) await until(() => learned(member), `the memory of ${member.mark}`)

    await child.stop()
    const shown = echo.shown.filter((body) => crowd.owners.namedIn(body).size > 1)
    t.strictSame(shown.slice(0, 3), [], `${echo.shown.length} conversations were shown to the model`)
    const lines = child.log.split('\n').filter((line) => line.match(MARK) || crowd.owners.namedIn(line).size > 1)
    t.strictSame(lines.slice(0, 3), [], 'the log has no words of anybody, and names one user a line')
    const database = join(child.home, 'data', 'colloquy.db')
    t.ok(existsSync(database))
    checkDisk(t, crowd, child.home)
    checkRows(t, crowd, database)
  }
)
