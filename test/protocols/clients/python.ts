// OpenAI's client in Python, in a process of its own: it is told by lines what to do.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pythonWith } from '../../fixtures/python.ts'
import type { Client, ClientMaker, Shown } from './client.ts'
import { threadIn } from './openai.ts'

/** The sources lie beside the build this file was compiled into. */
const PROGRAM = fileURLToPath(new URL('../../../../test/protocols/clients/responses.py', import.meta.url))
const NOTHING: Shown = { texts: [], reasonings: [], results: [] }

interface Answer {
  readonly thread: string
  readonly shown: Shown
  readonly error?: string
}

/** A sentence where it cannot be installed. */
export const pythonOfOpenai = () => pythonWith('openai', 'openai')

class Python implements Client {
  readonly #process: ChildProcess
  readonly #lines: Interface
  readonly #ended: Promise<unknown>
  #shown = NOTHING

  constructor(bin: string, url: string, token: string) {
    const program = spawn(join(bin, 'python'), [PROGRAM, url, token], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#process = program
    this.#lines = createInterface(program.stdout)
    this.#ended = once(program, 'exit')
    // It reads no more orders then, but it may be waiting for an answer.
    process.once('exit', () => program.kill('SIGKILL'))
  }

  async #ask(order: object): Promise<Answer> {
    const answered = once(this.#lines, 'line')
    this.#process.stdin!.write(`${JSON.stringify(order)}\n`)
    const [line] = (await Promise.race([answered, this.#ended])) as [unknown]
    if (typeof line !== 'string') throw new Error('Python has ended')
    const answer = JSON.parse(line) as Answer
    if (answer.error !== undefined) throw new Error(answer.error)
    return answer
  }

  async turn(words: string): Promise<string> {
    const { thread, shown } = await this.#ask({ turn: words })
    this.#shown = shown
    return threadIn(thread)
  }

  shown(): Shown {
    return this.#shown
  }

  async later(): Promise<Shown> {
    return (await this.#ask({ later: true })).shown
  }
}

export const pythonResponses: ClientMaker = async (_packages, { url, token }) => {
  const python = await pythonOfOpenai()
  if ('reason' in python) throw new Error(python.reason)
  return new Python(python.bin, url, token)
}
