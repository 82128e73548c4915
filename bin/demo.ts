// colloquy demo: a first look. A gateway that keeps nothing, with conversations in it that are worth opening.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Colloquy } from '../lib/client/colloquy.ts'
import { loadConfig } from '../lib/config/config.ts'
import { type Command, JSON_HELP, JSON_OPTION, parse, print } from './command.ts'

const EMAIL = 'demo@example.com'

/** What is asked in each conversation; titles come of themselves. */
const CONVERSATIONS: readonly (readonly string[])[] = [
  ['Ask me something'],
  ['Please fail, so that I see what that looks like'],
  ['What can you do?', 'Show me a table'],
  ['Write a report', 'What time is it?'],
  ['Think, and show me everything', 'What time is it?']
]

export interface Demo {
  readonly url: string
  readonly email: string
  readonly password: string
  /**
   * Writes the sample conversations, in the time that their answers take.
   * @param onWritten called for each, with how many there are by then
   */
  fill(onWritten?: (count: number) => void): Promise<void>
  stop(): Promise<void>
}

/** Resolves when one can sign in. */
export async function startDemo(port: string): Promise<Demo> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-demo-'))
  const file = join(home, 'colloquy.yaml')
  writeFileSync(file, JSON.stringify({ database: { backend: 'memory' }, log_level: 'silent' }))
  // Nothing of the environment: a key of the user's would call a real model.
  const config = loadConfig({ file, home, port, env: {} })
  const quiet = () => {}
  const { startGateway } = await import('../lib/gateway.ts')
  const gateway = await startGateway({ config, log: { info: quiet, warn: quiet, error: quiet } })
  const stop = async () => {
    await gateway.stop()
    rmSync(home, { recursive: true, force: true })
  }
  const password = randomBytes(9).toString('base64url')
  const colloquy = await signedUp(gateway.url, password)
  const fill = async (onWritten: (count: number) => void = () => {}) => {
    let count = 0
    const write = (questions: readonly string[]) => converse(colloquy, questions).then(() => onWritten(++count))
    await Promise.all(CONVERSATIONS.map(write))
  }
  return { url: gateway.url, email: EMAIL, password, fill, stop }
}

/** A client with the session of the administrator that it makes. */
async function signedUp(url: string, password: string): Promise<Colloquy> {
  const { headers } = await new Colloquy({ url }).send('POST', '/api/v1/auth/initialize', {
    body: { email: EMAIL, password }
  })
  const cookies = headers.getSetCookie().map((line) => line.split(';')[0] ?? '')
  const csrf = cookies.find((cookie) => cookie.startsWith('csrf_token='))?.slice('csrf_token='.length) ?? ''
  return new Colloquy({ url, headers: { cookie: cookies.join('; '), 'X-CSRF-Token': csrf } })
}

async function converse(colloquy: Colloquy, questions: readonly string[]): Promise<void> {
  const { thread_id } = await colloquy.call<{ thread_id: string }>('POST', '/api/threads', {})
  for (const content of questions) {
    const input = { messages: [{ role: 'user', content }] }
    const run = colloquy.start(thread_id, { input, stream_mode: ['custom'] })
    // Until its end, which is an error where one was asked for.
    for await (const _frame of run);
  }
}

export const demo: Command = {
  name: 'demo',
  usage: '[--port NUMBER] [--json]',
  summary:
    'A first look: starts with sample conversations, keeps nothing, and prints the URL and a password. Example: colloquy demo --port 8001',
  options: [['--port NUMBER', 'port; default a free one'], JSON_HELP],
  async run(args) {
    const { values } = parse(args, { ...JSON_OPTION, port: { type: 'string' } })
    const { url, email, password, fill, stop } = await startDemo(values.port ?? '0')
    let isStopping = false
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      process.once(signal, () => {
        isStopping = true
        stop().then(
          () => process.exit(0),
          () => process.exit(1)
        )
      })
    const { json } = values
    const text = `Colloquy is listening on ${url}\nSign in as ${email} with ${password}\nNothing is kept: Ctrl+C ends it.`
    print(json, text, { url, email, password })
    const all = CONVERSATIONS.length
    try {
      await fill((count) => {
        const words = `Sample conversations: ${count} of ${all} ${count < all ? 'are written…' : 'are there.'}`
        print(json, words, { conversations: count, of: all })
      })
    } catch (error) {
      // What is being written is cut by the stop.
      if (!isStopping) throw error
    }
  }
}
