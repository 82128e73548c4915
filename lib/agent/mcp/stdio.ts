// A tool server as a child process: line-delimited JSON-RPC over stdin and stdout. It leads a process group, so that
// everything its launcher started ends with it.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { deserializeMessage, type JSONRPCMessage, serializeMessage, type Transport } from '@modelcontextprotocol/client'
import { getDefaultEnvironment } from '@modelcontextprotocol/client/stdio'
import { endGroup, processGroups } from '../../base/process-groups.ts'
import { drained, withTimeout } from '../../base/waiting.ts'
import { JsonShape } from '../../base/json.ts'
import { checkValues, LINE_FEED, LinePace, MESSAGE_BYTES, partOfTurn } from './message-bounds.ts'
import { withoutSecrets } from './secrets.ts'
import { warnUnexpected } from '../../base/errors.ts'

interface StdioCommand {
  readonly command: string
  readonly args: readonly string[]
  /** In addition to the default environment. Secret values. */
  readonly env: Readonly<Record<string, string>>
  /** Secrets to redact from its stderr. */
  readonly secrets: readonly string[]
}

type ServerProcess = ChildProcessByStdio<Writable, Readable, Readable>

/** Time to exit after its stdin was closed, and after SIGTERM, in ms. */
const GRACE_MS = 2_000
/** Consecutive non-JSON lines before giving up; a few may be a greeting. */
const GARBAGE_LINES = 100
/** Time to read remaining output after the exit, in ms. */
const DRAIN_MS = 500
/** Characters of stderr to show; more are kept, so that a secret is never cut before redaction. */
const WORDS_MAX = 300
const HEARD_MAX = 8_192

export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #command: StdioCommand
  /** Chunks of an incomplete line, joined only once, so that a long line costs linear time. */
  #begun: Buffer[] = []
  #begunBytes = 0
  readonly #pace = new LinePace()
  #process: ServerProcess | null = null
  #ended: Promise<void> = Promise.resolve()
  #garbage = 0
  #words = ''
  /** Why we killed it. */
  #failure: Error | null = null

  constructor(command: StdioCommand) {
    this.#command = command
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
    processGroups.hold(server)
    this.#ended = new Promise((resolve) => server.once('exit', () => resolve()))
    const closed = new Promise((resolve) => server.once('close', resolve))
    // A process that left the group may keep the pipes open for ever.
    const heard = this.#ended.then(() => withTimeout(closed, DRAIN_MS))
    heard.then(() => this.#over(server)).catch(warnUnexpected)
    server.on('error', (error) => this.onerror?.(error))
    server.stdin.on('error', (error) => this.onerror?.(error))
    server.stdout.on('data', (bytes: Buffer) => this.#takeInTurns(server.stdout, bytes))
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#words = (this.#words + text).slice(-HEARD_MAX)
    })
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const server = this.#process
    if (server === null) throw new Error('The tool server is not running')
    if (server.stdin.write(serializeMessage(message))) return
    // It may end instead of reading on.
    await drained(server.stdin)
  }

  /** Closes its stdin, then sends SIGTERM, then SIGKILL. */
  async close(): Promise<void> {
    const server = this.#process
    if (server?.pid === undefined) return
    server.stdin.end()
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await this.#endsWithin(GRACE_MS)) return
      endGroup(server, signal)
    }
    await this.#ended
  }

  async #endsWithin(ms: number): Promise<boolean> {
    return (
      (await withTimeout(
        this.#ended.then(() => true),
        ms
      )) === true
    )
  }

  /** What is too much for this turn is put back. */
  #takeInTurns(stdout: Readable, bytes: Buffer): void {
    const { part, lines } = partOfTurn(bytes)
    this.#take(part)
    if (lines === 0 || this.#failure !== null) return
    stdout.pause()
    if (part.length < bytes.length) stdout.unshift(bytes.subarray(part.length))
    this.#pace
      .took(lines)
      .then(() => stdout.resume())
      .catch(warnUnexpected)
  }

  #take(bytes: Buffer): void {
    let from = 0
    for (let at = bytes.indexOf(LINE_FEED); at >= 0 && this.#failure === null; at = bytes.indexOf(LINE_FEED, from)) {
      const line = Buffer.concat([...this.#begun, bytes.subarray(from, at)])
      this.#begun = []
      this.#begunBytes = 0
      from = at + 1
      this.#hear(line)
    }
    this.#begun.push(bytes.subarray(from))
    this.#begunBytes += bytes.length - from
    if (this.#begunBytes > MESSAGE_BYTES) this.#fail(new Error(`A message of more than ${MESSAGE_BYTES} bytes`))
  }

  #hear(bytes: Buffer): void {
    const line = bytes.toString('utf8')
    if (line.trim() === '') return
    const shape = new JsonShape()
    shape.feed(bytes)
    try {
      checkValues(shape)
    } catch (error) {
      return this.#fail(error instanceof Error ? error : new Error(String(error)))
    }
    let message: JSONRPCMessage
    try {
      message = deserializeMessage(line)
    } catch {
      if (++this.#garbage > GARBAGE_LINES) this.#fail(new Error('It does not speak MCP over its standard output'))
      return
    }
    this.#garbage = 0
    this.onmessage?.(message)
  }

  /** Kills it because its output is invalid. */
  #fail(error: Error): void {
    const server = this.#process
    if (server?.pid === undefined) return
    this.#failure ??= error
    server.stdout.removeAllListeners('data').pause()
    endGroup(server, 'SIGKILL')
  }

  #over(server: ServerProcess): void {
    if (this.#process === null) return
    this.#process = null
    this.#begun = []
    server.stdout.destroy()
    server.stderr.destroy()
    const words = withoutSecrets(this.#words, this.#command.secrets).trim().slice(-WORDS_MAX)
    const { exitCode, signalCode } = server
    const how = signalCode === null ? `with code ${exitCode}` : `by ${signalCode}`
    this.onerror?.(this.#failure ?? new Error(`The tool server ended ${how}${words && `: ${words}`}`))
    this.onclose?.()
  }

  #neverBegan(server: ServerProcess): Promise<never> {
    return new Promise((_resolve, reject) => server.once('error', reject))
  }
}
