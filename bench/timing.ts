// A request that is asked again and again over one kept connection, and how long its answers took.
import { Agent, request } from 'node:http'
import { quantile } from './report.ts'
import type { Server } from './rig.ts'

export interface Call {
  readonly server: Server
  readonly path: string
  /** A POST with this JSON; else a GET. */
  readonly body?: object
}

export interface Times {
  readonly p50: number
  readonly p99: number
  /** Of one answer. */
  readonly text: string
}

/** `count` times, one after the other, after a few that are not counted. */
export async function timesOf(call: Call, count: number): Promise<Times> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const times: number[] = []
  let text = ''
  try {
    for (let i = -Math.min(10, count); i < count; i++) {
      const began = performance.now()
      text = await answerTo(call, agent)
      if (i >= 0) times.push(performance.now() - began)
    }
  } finally {
    agent.destroy()
  }
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99), text }
}

function answerTo({ server, path, body }: Call, agent: Agent): Promise<string> {
  const text = body && JSON.stringify(body)
  const type =
    text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  const options = { method: text === undefined ? 'GET' : 'POST', headers: { ...server.headers, ...type }, agent }
  return new Promise((resolve, reject) => {
    const asked = request(server.url + path, options, (answer) => {
      const parts: Buffer[] = []
      answer.on('data', (part: Buffer) => parts.push(part))
      answer.on('end', () => {
        const all = Buffer.concat(parts).toString()
        if (answer.statusCode === 200) resolve(all)
        else reject(new Error(`${path}: ${answer.statusCode} ${all.slice(0, 200)}`))
      })
    })
    asked.on('error', reject)
    asked.end(text)
  })
}
