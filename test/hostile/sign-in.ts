// Sign-ins under fire: while others register and guess as fast as they can, who has the right password gets in.
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { PASSWORD, Person } from '../fixtures/gateway.ts'
import { besieged, WHOLE, withstands } from '../fixtures/siege.ts'
import type { Child } from '../fixtures/child.ts'

const AUTH = '/api/v1/auth'
const A_SECOND = 90
const SECONDS = WHOLE ? 30 : 2
/** The bar is two seconds; on a machine that does ten other things it is ten times as much. */
const WITHIN_MS = WHOLE ? 2_000 : 20_000

/** The status, or 0 when the connection broke. */
function post(child: Child, from: string, path: string, body: object): Promise<number> {
  const text = JSON.stringify(body)
  return new Promise((resolve) => {
    const asked = request(
      {
        host: '127.0.0.1',
        port: child.port,
        localAddress: from,
        path,
        method: 'POST',
        agent: false,
        headers: { 'content-type': 'application/json', 'content-length': text.length }
      },
      (answer) => {
        answer.resume()
        answer.on('end', () => resolve(answer.statusCode ?? 0))
      }
    )
    asked.on('error', () => resolve(0))
    asked.end(text)
  })
}

const FIRE: Readonly<Record<string, (child: Child, n: number) => Promise<number>>> = {
  'registrations from one address': (child, n) =>
    post(child, '127.0.3.1', `${AUTH}/register`, { email: `evil-${n}@example.com`, password: PASSWORD }),
  'registrations from many addresses': (child, n) =>
    post(child, `127.0.4.${1 + (n % 90)}`, `${AUTH}/register`, {
      email: `evil-m-${n}@example.com`,
      password: PASSWORD
    }),
  'guesses from one address': (child, n) =>
    post(child, '127.0.5.1', `${AUTH}/login/local`, { email: 'boss@example.com', password: `guess-${n}` })
}

for (const [what, shoot] of Object.entries(FIRE)) {
  t.test(`[18.A.5] under ${A_SECOND} ${what} a second a right sign-in from elsewhere passes`, async (t) => {
    const child = await besieged(t, {}, { hasRealPasswords: true })
    const boss = new Person(child.url)
    await boss.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })
    const took: number[] = []
    const statuses: number[] = []
    const codes = new Set<number>()
    await withstands(
      t,
      child,
      what,
      async () => {
        const firing = (async () => {
          for (let n = 0; n < A_SECOND * SECONDS; n++) {
            void shoot(child, n).then((status) => codes.add(status))
            await pause(1000 / A_SECOND)
          }
        })()
        for (let n = 0; n < SECONDS; n++) {
          await pause(500)
          const begun = performance.now()
          statuses.push(
            await post(child, '127.0.0.77', `${AUTH}/login/local`, { email: 'boss@example.com', password: PASSWORD })
          )
          took.push(performance.now() - begun)
        }
        await firing
        t.comment(`${what}: answered ${[...codes].join(', ')}`)
      },
      { delayMs: 1_000, growthMb: 128 }
    )
    t.ok(
      statuses.every((status) => status === 200),
      `all of them pass: ${statuses.join(' ')}`
    )
    t.ok(Math.max(...took) < WITHIN_MS, `the slowest took ${Math.max(...took).toFixed(0)} ms`)
  })
}
