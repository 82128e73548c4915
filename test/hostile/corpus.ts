// The corpus of exhaustion: eighteen ways to stop a server with what one person can send, one after the other at one process.
import t from 'tap'
import { upload } from '../fixtures/form.ts'
import { asked, PASSWORD, Person, signIn } from '../fixtures/gateway.ts'
import { answerOn, attackFromElsewhere, besieged, dial, WHOLE, withstands } from '../fixtures/siege.ts'
import { zipOf } from '../fixtures/zip.ts'

const AUTH = '/api/v1/auth'
const MB = 1024 * 1024
const MANY = WHOLE ? 200 : 40
const HEALTH_MS = 250
const GROWTH_MB = 256

t.test(
  '[18 Done when] eighteen kinds of exhaustion leave the loop under 250 ms and the memory within 256 MB',
  async (t) => {
    const child = await besieged(t, {
      streams: { stall_ms: 1_000 },
      server: { connections_per_address: 500 },
      log_level: 'silent'
    })
    const evil = await signIn(child, 'evil')
    const thread = await evil.thread()
    const api = `/api/threads/${thread}`
    const lines = Object.entries(evil.headers()).map(([name, value]) => `${name}: ${value}\r\n`)
    const signedIn = `Host: x\r\n${lines.join('')}`
    const json = { 'content-type': 'application/json' }
    const send = (method: string, path: string, body: string) => evil.ask(method, path, { body, headers: json })
    /** The same bytes on many connections, which say nothing more and read nothing. */
    const flood = async (bytes: string | Buffer, ms = 500, count = MANY) => {
      const dialled = Array.from({ length: count }, (_, i) => dial(child, `127.0.7.${1 + (i % 200)}`).catch(() => null))
      const sockets = (await Promise.all(dialled)).filter((socket) => socket !== null)
      for (const socket of sockets) {
        socket.pause()
        socket.write(bytes)
      }
      await Promise.all(sockets.map((socket) => answerOn(socket, ms)))
    }
    const zip = zipOf([{ name: 'zeros', data: Buffer.alloc(16 * MB) }])
    await upload(evil, thread, [
      ['a.skill', zip],
      ['plain.bin', Buffer.alloc(16 * MB)]
    ])
    for (let n = 0; n < 6; n++) {
      const more = '/demo deltas=1 rate=0\n'.padEnd(1.5 * MB, 'x')
      await evil.post(`${api}/runs/wait`, asked(more))
    }
    const artifact = (path: string) => `GET ${api}/artifacts/mnt/user-data/uploads/${path} HTTP/1.1\r\n${signedIn}\r\n`
    const marks = `a${'\u0301'.repeat(200_000)}`
    const login = (length: string) => `POST ${AUTH}/login/local HTTP/1.1\r\nHost: x\r\n${length}\r\n\r\n`

    const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
      'heads that stop': () => flood(`GET /health HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(12_000)}`),
      'sign-ins that stop': () => flood(`${login('Content-Length: 8000')}${'x'.repeat(7_000)}`),
      'sign-ins in endless chunks': () =>
        flood(`${login('Transfer-Encoding: chunked')}${'ffff\r\n'.padEnd(65_541, 'x')}`),
      'sign-ins of 16 MB': () =>
        flood(Buffer.concat([Buffer.from(login('Content-Length: 16777216')), Buffer.alloc(4 * MB)])),
      'a sign-in with accents heaped up': () =>
        Promise.all(
          [8_000, 400_000].map((bytes) =>
            new Person(child.url).post(`${AUTH}/login/local`, { email: marks.slice(0, bytes / 2), password: 'x' })
          )
        ),
      'a search for a million ids': () => send('POST', '/api/threads/search', `{"ids":[${'1,'.repeat(1_000_000)}1]}`),
      'sixty thousand messages': () =>
        send(
          'POST',
          `${api}/runs/wait`,
          `{"input":{"messages":[${'{"role":"user","content":""},'.repeat(60_000)}""]}}`
        ),
      'as many messages as fit': () =>
        send('POST', `${api}/runs/wait`, `{"input":{"messages":[${'"",'.repeat(9_999)}""]}}`),
      'metadata of three hundred thousand keys': () =>
        send('PATCH', api, `{"metadata":{${Array.from({ length: 300_000 }, (_, i) => `"k${i}":1`).join(',')}}}`),
      'a hundred thousand levels': () =>
        send('POST', `${api}/state`, `{"values":{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`),
      'names of files of 60 KB': () => upload(evil, thread, [[marks.slice(0, 30_000), 'x']]),
      'members of archives that nobody reads': () => flood(artifact('a.skill/zeros'), 3_000),
      'files that nobody reads': () => flood(artifact('plain.bin'), 3_000),
      'pages of messages that nobody reads': () =>
        flood(`GET ${api}/messages?limit=200 HTTP/1.1\r\n${signedIn}\r\n`, 3_000, 10),
      'pipelines that nobody reads': () => flood('GET /health HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(500)),
      'pipelines of streams': () =>
        flood(`POST ${api}/runs/stream HTTP/1.1\r\n${signedIn}Content-Length: 2\r\n\r\n{}`.repeat(50)),
      registrations: () =>
        Promise.all(
          Array.from({ length: MANY }, (_, n) =>
            new Person(child.url).post(`${AUTH}/register`, {
              email: `r${n}-${Date.now()}@example.com`,
              password: PASSWORD
            })
          )
        ),
      suggestions: () =>
        Promise.all(
          Array.from({ length: MANY }, () =>
            evil.post(`${api}/suggestions`, { messages: [{ role: 'user', content: '/demo deltas=2 rate=20' }] })
          )
        )
    }
    t.equal(Object.keys(kinds).length, 18)
    attackFromElsewhere()
    const before = (await child.memory()).now
    let [slowest, most] = [0, 0]
    for (const [what, attack] of Object.entries(kinds)) {
      const { health } = await withstands(t, child, what, () => attack().catch(() => {}), {
        delayMs: HEALTH_MS,
        growthMb: GROWTH_MB
      })
      slowest = Math.max(slowest, health)
      most = Math.max(most, (await child.memory()).since)
    }
    const growth = (most - before) / MB
    t.ok(growth <= GROWTH_MB, `the most memory since the start: +${growth.toFixed(0)} MB`)
    t.comment(`the slowest answer of /health in all: ${slowest.toFixed(0)} ms`)
    t.equal((await evil.get(`${AUTH}/me`)).status, 200, 'who is signed in is served')
  }
)
