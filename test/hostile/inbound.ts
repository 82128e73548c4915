// Every parser of what strangers send (people, models, servers) is given it endless, giant, in tiny parts, deep, with many keys and ids,
// and unfinished: what is held has a budget, the process lives with little memory, and no turn of the loop is long.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { Child } from '../fixtures/child.ts'
import { FORM_TYPE, headOf, upload } from '../fixtures/form.ts'
import { asked, at, PASSWORD, Person, signIn, until } from '../fixtures/gateway.ts'
import { events, FloodServer, json, long, MANY, parts, SHAPES, type Shape, write } from '../fixtures/inbound.ts'
import { eventsPath } from '../fixtures/protocol.ts'
import { thisThread, workOf } from '../fixtures/run-delay.ts'
import { answerOn, attackFromElsewhere, besieged, dial } from '../fixtures/siege.ts'
import { type ZipMember, zipOf } from '../fixtures/zip.ts'

const MB = 1024 * 1024
const HEAP = { NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --max-old-space-size=256` }
/** Beyond what the budgets allow while it is held, and beyond nothing afterwards. */
const GROWTH = 16 * MB
/** A user's budget of 256 MB of heap and what comes with it, in the bytes that it stands for. */
const BUDGET = 22 * MB
const TIMEOUT_S = 8
/** The loop may stand still for 250 ms where the work below takes 60. */
const TURN_MS = 250
const CALIBRATION_MS = 60
const TRIES = 3

attackFromElsewhere()

/** How much slower this machine is now than the one that the limit was measured on. */
function slowness(): number {
  const worked = workOf(thisThread()) ?? (() => performance.now())
  const text = JSON.stringify(Array.from({ length: 20_000 }, (_, n) => ({ [`k${n}`]: [n, `${n}`] })))
  const took = Array.from({ length: 3 }, () => {
    const began = worked()
    for (let n = 0; n < 2; n++) JSON.stringify(JSON.parse(text))
    return worked() - began
  })
  return Math.max(1, Math.min(...took) / CALIBRATION_MS)
}

interface Parser {
  readonly child: Child
  /** Sends it. Resolves when it was refused, read or held. */
  attack(shape: Shape): Promise<unknown>
  /** Lets go of what is held. */
  release?(): void
  /** What it was sent by, where it asks for it: what outgrows every bound is not read to its end. */
  readonly flood?: FloodServer
}

const WITHOUT_END: readonly Shape[] = ['endless', 'one giant line']

async function withstandsAll(t: Test, name: string, { child, attack, release, flood }: Parser): Promise<void> {
  // What is loaded and compiled with the first of them stays. Of floods it is one that ends: a run would wait for its timeout.
  await attack(flood ? 'many ids' : 'unfinished')
  release?.()
  for (const shape of SHAPES) {
    const what = `${name}, ${shape}`
    let [turn, held, left] = [0, 0, 0]
    let isShort = false
    for (let tries = 0; tries < TRIES; tries++) {
      const before = await child.held()
      child.measure()
      await attack(shape)
      turn = (await child.measured()).own
      held = (await child.held()) - before
      release?.()
      const freed = async () => {
        left = (await child.held()) - before
        return left <= GROWTH
      }
      await until(freed, what, 10_000).catch(() => {})
      // The machine is measured only when that matters: it takes as long as most attacks.
      isShort = turn <= TURN_MS || turn <= TURN_MS * slowness()
      if (isShort && left <= GROWTH) break
    }
    const mb = (bytes: number) => `${(bytes / MB).toFixed(1)} MB`
    t.ok(isShort, `${what}: a turn of ${turn.toFixed(0)} ms`)
    t.ok(held <= BUDGET + GROWTH, `${what}: ${mb(held)} held`)
    t.ok(left <= GROWTH, `${what}: ${mb(left)} kept`)
    t.notOk(child.hasExited, `${what}: the process lives`)
    if (flood && WITHOUT_END.includes(shape)) t.notOk(flood.isReadWhole, `${what}: it is left in the middle`)
  }
}

async function anAdmin(child: Child): Promise<Person> {
  const admin = new Person(child.url)
  const { status } = await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  if (status !== 201) throw new Error(`no administrator: ${status}`)
  return admin
}

function headersOf(person: Person): string {
  return Object.entries(person.headers())
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
}

const chunked = (piece: string) => `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`

/** Requests with a chunked body; those that are not finished stay open. */
function overHttp(child: Child, head: string, piecesOf: (shape: Shape) => Iterable<string>) {
  const open: Socket[] = []
  return {
    child,
    async attack(shape: Shape) {
      const sockets = await Promise.all(Array.from({ length: shape === 'unfinished' ? 40 : 1 }, () => dial(child)))
      open.push(...sockets)
      await Promise.all(
        sockets.map(async (socket) => {
          const answered = answerOn(socket, shape === 'unfinished' ? 1_000 : 20_000)
          const tiny = shape === 'a million tiny parts'
          socket.write(`${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n`)
          if (tiny)
            await write(
              socket,
              parts(() => chunked('1'), MANY)
            )
          else await write(socket, mapped(piecesOf(shape), chunked))
          if (shape !== 'unfinished') socket.write('0\r\n\r\n')
          // What is unfinished is held: it is measured before it is let go.
          if (shape !== 'unfinished') await answered
        })
      )
    },
    release() {
      for (const socket of open.splice(0)) socket.destroy()
    }
  }
}

function* mapped(pieces: Iterable<string>, make: (piece: string) => string | Buffer): Generator<string | Buffer> {
  for (const piece of pieces) if (piece !== '') yield make(piece)
}

t.test('bodies of requests', async (t) => {
  const child = await besieged(t, { log_level: 'silent' }, { env: HEAP })
  const person = await signIn(child)
  const path = `/api/threads/${await person.thread()}/state`
  await withstandsAll(t, 'a body', overHttp(child, `POST ${path} HTTP/1.1\r\nHost: x\r\n${headersOf(person)}`, json))
})

/** A masked frame: the first of a message, one in between, or the last. */
function frame(text: string, first: number): Buffer {
  const bytes = Buffer.from(text)
  const head = Buffer.alloc(bytes.length < 126 ? 6 : 14)
  head.writeUInt8(first, 0)
  head.writeUInt8(0x80 | (bytes.length < 126 ? bytes.length : 127), 1)
  if (bytes.length >= 126) head.writeBigUInt64BE(BigInt(bytes.length), 2)
  return Buffer.concat([head, bytes])
}

t.test('messages and subscriptions of WebSockets', async (t) => {
  const child = await besieged(t, { log_level: 'silent' }, { env: HEAP })
  const person = await signIn(child)
  const open: Socket[] = []
  const socket = async () => {
    const socket = await dial(child)
    open.push(socket)
    const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
    const head = `GET ${eventsPath(randomUUID())} HTTP/1.1\r\nHost: x\r\n${headersOf(person)}${key}`
    socket.write(`${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    await once(socket, 'data')
    return socket
  }
  await withstandsAll(t, 'a message', {
    child,
    async attack(shape) {
      const sockets = await Promise.all(Array.from({ length: shape === 'unfinished' ? 40 : 1 }, socket))
      for (const one of sockets) {
        const answered = answerOn(one, shape === 'unfinished' ? 500 : 3_000)
        one.write(frame('', 0x01))
        const tiny = shape === 'a million tiny parts'
        await write(
          one,
          tiny ? mapped(['1'.repeat(MANY)], manyFrames) : mapped(json(shape), (piece) => frame(piece, 0))
        )
        if (shape !== 'unfinished') {
          one.write(frame('', 0x80))
          await answered
        }
      }
    },
    release() {
      for (const one of open.splice(0)) one.destroy()
    }
  })
  const kept: AbortController[] = []
  await withstandsAll(t, 'subscriptions', {
    child,
    async attack(shape) {
      for (let n = 0; n < 60; n++) {
        const reading = new AbortController()
        kept.push(reading)
        const body = JSON.stringify({ channels: ['messages'], namespaces: namespacesOf(shape, n) })
        const headers = { ...person.headers(), 'content-type': 'application/json' }
        const { status } = await fetch(child.url + eventsPath(randomUUID()), {
          ...{ method: 'POST', body, headers, signal: reading.signal }
        })
        if (![200, 413, 422, 429].includes(status)) throw new Error(`${shape}: ${status}`)
      }
    },
    release() {
      for (const one of kept.splice(0)) one.abort()
    }
  })
})

function manyFrames(text: string): Buffer {
  return Buffer.concat([...text].map((char) => frame(char, 0)))
}

function namespacesOf(shape: Shape, n: number): unknown {
  if (shape === 'deep nesting') return JSON.parse(`${'['.repeat(400)}${']'.repeat(400)}`)
  if (shape === 'a million tiny parts') return Array.from({ length: 8_000 }, () => ['a'])
  if (shape === 'many keys') return Object.fromEntries(Array.from({ length: 4_000 }, (_, i) => [`k${i}`, 1]))
  // As much as a subscription may have, and each different from the others.
  return Array.from({ length: 12 }, (_, i) => Array.from({ length: 16 }, () => `${n} ${i}`.padEnd(250, 'x')))
}

t.test('forms of uploads', async (t) => {
  const child = await besieged(t, { log_level: 'silent', uploads: { max_total_size: 8 * MB } }, { env: HEAP })
  const person = await signIn(child)
  const thread = await person.thread()
  const part = (name: string, content = 'x') => `${headOf(name)}${content}\r\n`
  const field = (n: number) => `--test-boundary\r\nContent-Disposition: form-data; name="f${n}"\r\n\r\n1\r\n`
  const form = function* (shape: Shape): Generator<string> {
    switch (shape) {
      case 'endless':
        yield headOf('a.bin')
        return yield* long('x'.repeat(65_536))
      case 'one giant line':
        yield '--test-boundary\r\nContent-Disposition: form-data; name="'
        return yield* long('x'.repeat(65_536))
      case 'a million tiny parts':
        return yield* parts(() => part('a'), MANY / 3)
      case 'deep nesting':
        return yield* parts(
          (n) => `--test-boundary\r\nContent-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`,
          MANY / 3
        )
      case 'many keys':
        return yield* parts(field, MANY / 3)
      case 'many ids':
        return yield* parts((n) => part(`file-${n}`), MANY / 3)
      case 'unfinished':
        return yield headOf('a.bin') + 'x'.repeat(MB / 8)
    }
  }
  const head = `POST /api/threads/${thread}/uploads HTTP/1.1\r\nHost: x\r\n${headersOf(person)}Content-Type: ${FORM_TYPE}\r\n`
  await withstandsAll(t, 'a form', overHttp(child, head, form))
})

t.test('front matter of skills, and archives', async (t) => {
  const child = await besieged(t, { log_level: 'silent' }, { env: HEAP })
  const admin = await anAdmin(child)
  const text = (shape: Shape): string => {
    const size = 200_000
    const unit: Record<Shape, string> = {
      endless: 'a: 1\n',
      'one giant line': 'x',
      'a million tiny parts': '- ',
      'deep nesting': '[',
      'many keys': '{a: ',
      'many ids': '&a ',
      unfinished: '? '
    }
    return `---\n${unit[shape].repeat(size / unit[shape].length)}${shape === 'unfinished' ? '' : '\n---\n'}`
  }
  const members = (shape: Shape): readonly ZipMember[] => {
    switch (shape) {
      case 'endless':
      case 'one giant line':
        return [{ name: 'a', data: Buffer.alloc(48 * MB) }]
      case 'a million tiny parts':
        return Array.from({ length: 20_000 }, (_, n) => ({ name: `${n}`, data: 'x' }))
      case 'deep nesting':
        return [{ name: 'd/'.repeat(20_000), data: 'x' }]
      case 'many keys':
      case 'many ids':
        return Array.from({ length: 20_000 }, (_, n) => ({ name: `d${n}/` }))
      case 'unfinished':
        return [{ name: 'a', data: 'x', claims: 4_000_000_000 }]
    }
  }
  const thread = await admin.thread()
  await withstandsAll(t, 'an archive', {
    child,
    async attack(shape) {
      const zip = zipOf(members(shape))
      await upload(admin, thread, [[`a.skill`, shape === 'unfinished' ? zip.subarray(0, -10) : zip]])
      const path = `mnt/user-data/uploads/a.skill`
      await admin.get(`/api/threads/${thread}/artifacts/${path}/a`)
      const inside = `${path}/${'x.skill/'.repeat(1_900)}%0A`
      await admin.get(`/api/threads/${thread}/artifacts/${inside}`)
      await admin.post('/api/skills/install', { thread_id: thread, path: `/${path}` })
    }
  })
  await withstandsAll(t, 'front matter', {
    child,
    async attack(shape) {
      const { status } = await admin.ask('PUT', '/api/skills/custom/x', { body: { content: text(shape) } })
      if (status < 400 || status >= 500) throw new Error(`${shape}: ${status}`)
    }
  })
})

/** A delta of a model, each with a tool call of its own. */
const delta = (n: number, content: string) =>
  JSON.stringify({ choices: [{ delta: content ? { content } : { tool_calls: [call(n)] } }] })
const call = (n: number) => ({ index: n, id: `call-${n}`, type: 'function', function: { name: 'x', arguments: '{' } })

/** Asks for runs, and lets none of them last longer than it may. */
async function waited(t: Test, person: Person, what: string): Promise<void> {
  const began = performance.now()
  const { status, body } = await person.post('/api/runs/wait', asked('hello'))
  const tookS = (performance.now() - began) / 1000
  t.ok(tookS < TIMEOUT_S * 10, `${what}: answered in ${tookS.toFixed(0)} s`)
  t.equal(status, 200, `${what}: ${JSON.stringify(body)?.slice(0, 200)}`)
}

t.test('streams of models', async (t) => {
  const flood = await FloodServer.start(t, (shape) => events(shape, delta))
  const models = [{ name: 'm', provider: 'openai', base_url: `${flood.url}/v1`, api_key: 'k', model: 'm' }]
  const runs = { timeout_s: TIMEOUT_S }
  const child = await besieged(t, { log_level: 'silent', models, runs }, { env: HEAP })
  const person = await signIn(child)
  await withstandsAll(t, 'a model', {
    child,
    flood,
    async attack(shape) {
      flood.shape = shape
      await waited(t, person, `a model, ${shape}`)
    }
  })
  t.ok(flood.asked >= SHAPES.length)
})

t.test('streams and answers of LangGraph servers', async (t) => {
  const message = (n: number, content: string) => JSON.stringify([{ type: 'AIMessageChunk', id: `m${n}`, content }, {}])
  const flood = await FloodServer.start(t, function* (shape, type) {
    if (type === 'application/json') return yield* json(shape)
    for (const piece of events(shape, message)) yield piece.replaceAll(/^data: \[/gm, 'event: messages\ndata: [')
  })
  const agent = { runtime: 'langgraph', url: flood.url }
  const runs = { timeout_s: TIMEOUT_S }
  const child = await besieged(t, { log_level: 'silent', agent, runs }, { env: HEAP })
  const person = await signIn(child)
  for (const type of ['application/json', 'text/event-stream']) {
    flood.type = type
    flood.answerOf = ({ url }) => (type === 'application/json' || url!.endsWith('/stream') ? null : '{}')
    await withstandsAll(t, `a LangGraph server with ${type}`, {
      child,
      flood,
      async attack(shape) {
        flood.shape = shape
        const before = flood.asked
        await waited(t, person, `a LangGraph server, ${shape}`)
        t.ok(flood.asked > before, 'it was flooded')
      }
    })
  }
})

t.test('answers and streams of tool servers', async (t) => {
  const reply = (n: number, text: string) => JSON.stringify({ jsonrpc: '2.0', id: n, result: { text } })
  const flood = await FloodServer.start(t, (shape, type) =>
    type === 'application/json' ? json(shape) : events(shape, reply)
  )
  const mcp = { connect_timeout_ms: 2_000 }
  const child = await besieged(t, { log_level: 'silent', mcp }, { env: HEAP })
  const admin = await anAdmin(child)
  for (const type of ['application/json', 'text/event-stream'])
    await withstandsAll(t, `a tool server with ${type}`, {
      child,
      flood,
      async attack(shape) {
        flood.shape = shape
        flood.type = type
        const put = (mcp_servers: object) => admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers } })
        const { status } = await put({ flood: { type: 'http', url: `${flood.url}/mcp` } })
        t.equal(status, 200)
        const state = async () => at((await admin.get('/api/mcp/config')).body, 'mcp_servers', 'flood', 'status')
        await until(async () => typeof at(await state(), 'last_error') === 'string', `${shape}: it says what is wrong`)
        await put({})
      }
    })
})
