// How long from asking for a run to its first piece, for one and for fifty at once?
import { request } from 'node:http'
import type { Script } from './agent.ts'
import { quantile, type Row, report, short } from './report.ts'
import { Server } from './rig.ts'

const SCRIPT: Script = { deltas: 1, size: 20, rate: 0 }

/** Milliseconds from the first byte of the request to the first messages frame. */
function once(server: Server, thread: string): Promise<number> {
  const body = JSON.stringify({
    stream_mode: ['messages-tuple'],
    input: { messages: [{ role: 'user', content: JSON.stringify(SCRIPT) }] }
  })
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const headers = { ...server.headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const asked = request(
      `${server.url}/api/threads/${thread}/runs/stream`,
      { method: 'POST', headers, agent: false },
      (answer) => {
        let firstMs = 0
        answer.on('data', (chunk: Buffer) => {
          if (firstMs === 0 && chunk.includes('event: messages')) firstMs = performance.now() - began
        })
        answer.on('end', () => resolve(firstMs))
      }
    )
    asked.on('error', reject)
    asked.end(body)
  })
}

export async function firstFrame(options: { quick: boolean }): Promise<void> {
  const rounds = options.quick ? 5 : 40
  const server = await Server.start('gateway', SCRIPT)
  const rows: Row[] = []
  try {
    for (const atOnce of [1, 50]) {
      const threads = await Promise.all(Array.from({ length: atOnce }, () => server.thread()))
      const times: number[] = []
      const few = atOnce === 1 ? rounds : Math.ceil(rounds / 4)
      for (let i = 0; i < few + 3; i++) {
        // Runs need not wait for a word here: it is given before they ask.
        const beginning = setInterval(() => server.go(), 1)
        const round = await Promise.all(threads.map((thread) => once(server, thread)))
        clearInterval(beginning)
        // The first rounds warm up.
        if (i >= 3) times.push(...round)
      }
      rows.push({
        'at once': atOnce,
        'p50 ms': short(quantile(times, 0.5)),
        'p99 ms': short(quantile(times, 0.99)),
        samples: times.length
      })
    }
  } finally {
    await server.stop()
  }
  report('How long until the first piece of a new run?', { rounds }, rows)
}
