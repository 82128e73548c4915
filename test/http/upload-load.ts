// Many large uploads at once: they go to the disk as they come, and what is broken off leaves nothing.
//
// `COLLOQUY_UPLOADS=20x200` sends 20 of 200 MB, as the figures in needs N19 ask for; the default is small enough for every day.
import { readdirSync, statSync } from 'node:fs'
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { FORM_END, FORM_TYPE, headOf } from '../fixtures/form.ts'
import { at, listIn, type Person, signIn, until } from '../fixtures/gateway.ts'

const MB = 1 << 20
const [COUNT = 6, MEGABYTES = 40] = (process.env.COLLOQUY_UPLOADS ?? '').match(/\d+/g)?.map(Number) ?? []
const GROWTH_MAX = 100 * MB
const PIECE = Buffer.alloc(MB, 'x')

function begin(person: Person, thread: string, name: string): ClientRequest {
  const headers = { ...person.headers(), 'content-type': FORM_TYPE, 'transfer-encoding': 'chunked' }
  const req = request(`${person.url}/api/threads/${thread}/uploads`, { method: 'POST', headers, agent: false })
  req.write(headOf(name))
  return req
}

/** Sends as fast as it is taken. */
async function feed(req: ClientRequest, megabytes: number): Promise<void> {
  for (let sent = 0; sent < megabytes; sent++) if (!req.write(PIECE)) await once(req, 'drain')
}

async function answerOf(req: ClientRequest): Promise<{ status: number; body: unknown }> {
  const [res]: IncomingMessage[] = await once(req, 'response')
  let text = ''
  for await (const bytes of res ?? []) text += bytes
  return { status: res?.statusCode ?? 0, body: JSON.parse(text) }
}

/** Every file that uploads could have left, as name and size. */
function filesBelow(home: string): string[] {
  try {
    return readdirSync(join(home, 'users'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name, parentPath }) => `${name} ${statSync(join(parentPath, name)).size}`)
      .sort()
  } catch (error) {
    // Removed while it was read.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return filesBelow(home)
    throw error
  }
}

t.test(
  `[needs N19] ${COUNT} uploads of ${MEGABYTES} MB at once cost the gateway less than 100 MB; those that are broken off leave nothing`,
  { timeout: 600_000 },
  async (t) => {
    const gateway = await startChild(t, { config: { uploads: { max_file_size: 0, max_total_size: 0 } } })
    const person = await signIn(gateway)
    const thread = await person.thread()
    const small = begin(person, thread, 'small')
    const answered = answerOf(small)
    await feed(small, 1)
    small.end(FORM_END)
    t.equal((await answered).status, 200)
    const before = await gateway.memory()

    const begun = performance.now()
    const answers = await Promise.all(
      Array.from({ length: COUNT }, async (_, n) => {
        const req = begin(person, thread, `large-${n}`)
        const answer = answerOf(req)
        await feed(req, MEGABYTES)
        req.end(FORM_END)
        return answer
      })
    )
    const seconds = (performance.now() - begun) / 1000
    for (const [n, { status, body }] of answers.entries()) {
      t.equal(status, 200)
      t.match(listIn(body, 'files'), [{ filename: `large-${n}`, size: MEGABYTES * MB }])
    }
    const after = await gateway.memory()
    const growth = after.most - before.now
    t.comment(
      `RSS ${mb(before.now)} MB before, ${mb(after.most)} MB at most: ${mb(growth)} MB more; ${mb((COUNT * MEGABYTES * MB) / seconds)} MB/s`
    )
    t.ok(growth <= GROWTH_MAX, `${mb(growth)} MB more`)

    const broken = Array.from({ length: COUNT }, (_, n) => begin(person, thread, `broken-${n}`))
    for (const req of broken) req.on('error', () => {})
    await Promise.all(broken.map((req) => feed(req, 3)))
    // They have come as far as the disk.
    const whole = [`small ${MB}`, ...answers.map((_, n) => `large-${n} ${MEGABYTES * MB}`)].sort()
    await until(() => filesBelow(gateway.home).length === whole.length + COUNT, 'all are coming')
    for (const req of broken) req.destroy()
    await until(() => filesBelow(gateway.home).length <= whole.length, 'nothing of them is left')
    t.strictSame(filesBelow(gateway.home), whole)
    t.equal(at((await person.get(`/api/threads/${thread}/uploads/list`)).body, 'count'), whole.length)
  }
)

const mb = (bytes: number) => Math.round(bytes / MB)
