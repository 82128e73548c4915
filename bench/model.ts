// A model server, as a process of its own: speaks chat-completions and says what the last message, a script as JSON, tells it to.
// It takes requests at once and says its first word when the bench gives the word, to those who have asked by then, or at once where the
// script says so.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { piece, type Script } from './agent.ts'
import { Word } from './word.ts'

/** What the bench says. */
export type ModelOrder = 'go' | 'count'

const DONE = 'data: [DONE]\n\n'

let asked = 0
const word = new Word()

function event(content: string | null, finish: string | null): string {
  const delta = content === null ? {} : { content }
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }]
  const chunk = {
    id: 'chatcmpl-bench',
    object: 'chat.completion.chunk',
    created: 1_790_000_000,
    model: 'bench',
    choices
  }
  return `data: ${JSON.stringify(chunk)}\n\n`
}

async function say(res: ServerResponse, script: Script): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.flushHeaders()
  asked++
  if (!script.atOnce) await word.next
  const began = performance.now()
  for (let i = 0; i < script.deltas && !res.destroyed; i++) {
    const wait = script.rate === 0 ? 0 : began + (i * 1000) / script.rate - performance.now()
    if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait))
    const hasSpace = res.write(event(piece(script, i), null))
    if (!hasSpace) await new Promise((resolve) => res.once('drain', resolve))
    else if (script.rate === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  res.end(event(null, 'stop') + DONE)
}

const server = createServer((req, res) => {
  const parts: Buffer[] = []
  req.on('data', (part: Buffer) => parts.push(part))
  req.on('end', () => {
    // Only the gateway and the relay ask, with messages of the bench.
    const { messages } = JSON.parse(Buffer.concat(parts).toString()) as { messages: { content: string }[] }
    void say(res, JSON.parse(messages.at(-1)?.content ?? '{}') as Script)
  })
})
server.listen(0, '127.0.0.1', () => {
  // It listens on a port: its address is an object.
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` })
})
process.on('message', (order: ModelOrder) => {
  if (order !== 'go') return void process.send?.({ asked })
  asked = 0
  word.give()
})
