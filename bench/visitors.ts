// Visitors: a process of its own that signs in so often a second, whether the one before was answered or not.
import { request } from 'node:http'

/** What the bench says. */
export interface VisitOrder {
  readonly url: string
  readonly email: string
  readonly password: string
  readonly perSecond: number
  readonly seconds: number
}

/** What they answer when the last visitor has been answered. */
export interface VisitAnswer {
  /** Let in, and sent away because too many were waiting. */
  readonly passed: number
  readonly refused: number
  /** Neither: the bench measured something else. */
  readonly failed: number
  /** Of those let in. */
  readonly ms: readonly number[]
}

function signIn({ url, email, password }: VisitOrder): Promise<{ status: number; ms: number }> {
  const body = JSON.stringify({ email, password })
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const began = performance.now()
  return new Promise((resolve) => {
    const asked = request(`${url}/api/v1/auth/login/local`, { method: 'POST', headers, agent: false }, (answer) => {
      answer.resume()
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, ms: performance.now() - began }))
    })
    asked.on('error', () => resolve({ status: 0, ms: 0 }))
    asked.end(body)
  })
}

process.on('message', async (order: VisitOrder) => {
  const visits: ReturnType<typeof signIn>[] = []
  const began = performance.now()
  const count = order.perSecond * order.seconds
  while (visits.length < count) {
    const due = Math.min(count, Math.floor(((performance.now() - began) / 1000) * order.perSecond) + 1)
    while (visits.length < due) visits.push(signIn(order))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const answers = await Promise.all(visits)
  const passed = answers.filter(({ status }) => status === 200)
  const refused = answers.filter(({ status }) => status === 429).length
  process.send?.({
    passed: passed.length,
    refused,
    failed: answers.length - passed.length - refused,
    ms: passed.map(({ ms }) => ms)
  } satisfies VisitAnswer)
})
