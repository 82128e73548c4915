// A tool server as a process of ours: JSON-RPC by lines over its stdin and stdout. It leads a process group, so that whatever its
// launcher has started ends with it.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type JSONRPCMessage, ReadBuffer, serializeMessage, type Transport } from '@modelcontextprotocol/client'
import { getDefaultEnvironment } from '@modelcontextprotocol/client/stdio'
import type { Leash } from './leash.ts'
import { MASK } from './server-config.ts'

export interface StdioCommand {
  readonly command: string
  readonly args: readonly string[]
  /** Beside the few variables that every server gets. Secret values. */
  readonly env: Readonly<Record<string, string>>
}

type ServerProcess = ChildProcessByStdio<Writable, Readable, Readable>

/** Milliseconds until it must have ended: after its input has, and after SIGTERM. */
const GRACE_MS = 2_000
/** Lines in a row that are no messages. One or two are a greeting; more are another language. */
const GARBAGE_LINES = 100
/** For what it has said and we have not read yet, in ms. */
const DRAIN_MS = 500
/** Characters of its last words that are shown; more are kept, so that no half of a secret is among them. */
const WORDS_MAX = 300
const HEARD_MAX = 8_192
/** Shorter values are no secrets, and would be found everywhere. */
const SECRET_MIN = 4

export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #command: StdioCommand
  readonly #leash: Leash
  readonly #input = new ReadBuffer()
  #process: ServerProcess | null = null
  #ended: Promise<void> = Promise.resolve()
  #garbage = 0
  #words = ''

  constructor(command: StdioCommand, leash: Leash) {
    this.#command = command
    this.#leash = leash
  }

  /** @throws Error when there is no such command */
  async start(): Promise<void> {
    const { command, args, env } = this.#command
    const server = spawn(command, args, {
      env: { ...getDefaultEnvironment(), ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
      windowsHide: true
    })
    const { pid } = server
    if (pid === undefined) return this.#neverBegan(server)
    this.#process = server
    this.#leash.hold(pid)
    this.#ended = new Promise((resolve) => {
      server.once('exit', () => {
        // What it started and left behind.
        endGroup(pid, 'SIGKILL')
        this.#leash.release(pid)
        resolve()
      })
    })
    const drained = new Promise((resolve) => server.once('close', resolve))
    // A process that has left the group may hold the pipes for ever.
    const heard = this.#ended.then(() => Promise.race([drained, sleep(DRAIN_MS, null, { ref: false })]))
    void heard.then(() => this.#over(server))
    server.on('error', (error) => this.onerror?.(error))
    server.stdin.on('error', (error) => this.onerror?.(error))
    server.stdout.on('data', (bytes: Buffer) => this.#take(bytes))
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#words = (this.#words + text).slice(-HEARD_MAX)
    })
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const server = this.#process
    if (server === null) throw new Error('The tool server is not running')
    if (server.stdin.write(serializeMessage(message))) return
    // It may end instead of reading on.
    await Promise.race([new Promise((resolve) => server.stdin.once('drain', resolve)), this.#ended])
  }

  /** Ends it: by the end of its input, by SIGTERM, by SIGKILL. */
  async close(): Promise<void> {
    const server = this.#process
    if (server?.pid === undefined) return
    server.stdin.end()
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await this.#endsWithin(GRACE_MS)) return
      endGroup(server.pid, signal)
    }
    await this.#ended
  }

  async #endsWithin(ms: number): Promise<boolean> {
    const timer = new AbortController()
    const late = sleep(ms, false, { signal: timer.signal, ref: false }).catch(() => false)
    const isEnded = await Promise.race([this.#ended.then(() => true), late])
    timer.abort()
    return isEnded
  }

  #take(bytes: Buffer): void {
    try {
      this.#input.append(bytes)
      while (this.#next());
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /** @returns whether there may be more */
  #next(): boolean {
    let message: JSONRPCMessage | null
    try {
      message = this.#input.readMessage()
    } catch (error) {
      this.#garbage++
      if (this.#garbage > GARBAGE_LINES) throw new Error('It does not speak MCP', { cause: error })
      return true
    }
    if (message === null) return false
    this.#garbage = 0
    this.onmessage?.(message)
    return true
  }

  /** What it says is not to be read on. */
  #fail(error: Error): void {
    this.onerror?.(error)
    this.#process?.stdout.removeAllListeners('data').resume()
    void this.close()
  }

  #over(server: ServerProcess): void {
    if (this.#process === null) return
    this.#process = null
    this.#input.clear()
    server.stdout.destroy()
    server.stderr.destroy()
    const words = withoutSecrets(this.#words, this.#command.env).trim().slice(-WORDS_MAX)
    const { exitCode, signalCode } = server
    const how = signalCode === null ? `with code ${exitCode}` : `by ${signalCode}`
    this.onerror?.(new Error(`The tool server ended ${how}${words && `: ${words}`}`))
    this.onclose?.()
  }

  #neverBegan(server: ServerProcess): Promise<never> {
    return new Promise((_resolve, reject) => server.once('error', reject))
  }
}

function endGroup(leader: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(-leader, signal)
  } catch {
    // Nobody is left in it.
  }
}

/** Its last words may quote what it was given. */
function withoutSecrets(text: string, env: StdioCommand['env']): string {
  const secrets = Object.values(env).filter((value) => value.length >= SECRET_MIN)
  return secrets.reduce((left, secret) => left.replaceAll(secret, MASK), text)
}
