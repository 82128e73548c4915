// What administrators do over HTTP with an installation that serves: the work of the commands, each kind one at a time. What reads a
// database as a whole has a thread of its own, so that requests do not wait for it. Modules are loaded when they are first asked for.
import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { Worker } from 'node:worker_threads'
import type { Actor } from '../auth/audit.ts'
import { fail, messageOf } from '../base/errors.ts'
import { KeyedMutex, MutexBusy } from '../base/keyed-mutex.ts'
import { ThreadChannel } from '../base/thread-channel.ts'
import { unlessAborted } from '../base/waiting.ts'
import { type Config, type ShownConfig, shownConfig } from '../config/config.ts'
import { Paths } from '../files/paths.ts'
import { removeStale } from '../files/uploads.ts'
import type { SchemaPlan } from '../store/sql/migrations.ts'
import type { Works } from './apart-worker.ts'
import type { Finding } from './doctor.ts'

type Arguments<Name extends keyof Works> = Works[Name] extends (config: Config, ...args: infer Args) => unknown
  ? Args
  : never

export class Operations {
  readonly #config: Config
  readonly #turns = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1, waiting: 0 })

  constructor(config: Config) {
    this.#config = config
  }

  /** As colloquy config show. */
  config(): ShownConfig {
    return shownConfig(this.#config)
  }

  /** As colloquy doctor. @throws Failure operation_busy */
  doctor(): Promise<Finding[]> {
    return this.#alone('doctor', async () => {
      const { examine } = await import('./doctor.ts')
      return examine(this.#config, { isServing: true })
    })
  }

  /** As colloquy migrate --plan. @throws Failure operation_busy, operation_refused */
  plan(): Promise<SchemaPlan> {
    return this.#alone('plan', async () => {
      const { planMigration } = await import('./migrate.ts')
      const plan = await planMigration(this.#config).catch(refused)
      // A lock of its own looks to a process as if nobody had it.
      return plan.backend === 'sqlite' ? { ...plan, processes: [{ schema: plan.schema, count: 1 }] } : plan
    })
  }

  /** As colloquy prune --dry-run. @throws Failure operation_busy, operation_refused */
  countOld(signal: AbortSignal) {
    return this.#alone('count', () => this.#apart('countOld', [], signal))
  }

  /** As colloquy prune --now; whoever leaves does not end it. @throws Failure operation_busy, operation_refused */
  prune(by: Actor) {
    return this.#alone('prune', () => this.#apart('prune', [by]))
  }

  /**
   * As colloquy backup, without secrets. `take` is given the file to read; it is gone when that is done.
   * @throws Failure operation_busy, operation_refused; the signal's reason
   */
  backup(by: Actor, signal: AbortSignal, take: (file: Readable) => Promise<void>): Promise<void> {
    return this.#alone('backup', async (leave) => {
      const { databaseFiles } = await import('./backup.ts')
      const folder = new Paths(this.#config.home).incoming()
      await mkdir(folder, { recursive: true, mode: 0o700 })
      // What a process that was killed has left.
      await removeStale(folder)
      const file = join(folder, `${randomUUID()}.zip`)
      const made = await this.#apart('backup', [file, by], signal)
        .then(() => open(file))
        .finally(async () => {
          for (const left of [file, `${file}.part`, ...databaseFiles(`${file}.db.part`)])
            await rm(left, { force: true })
        })
      const reader = createReadStream('', { fd: made })
      // Before its last bytes are sent: who has them all may ask for the next one at once.
      reader.once('end', leave)
      await take(reader)
    })
  }

  /** @param work may leave before it is done */
  async #alone<T>(name: string, work: (leave: () => void) => Promise<T>): Promise<T> {
    const leave = await this.#turns.enter(name).catch((error: unknown) => {
      throw error instanceof MutexBusy ? fail('operation_busy', { name }) : error
    })
    let isAtIt = true
    const leaveOnce = () => {
      if (isAtIt) leave()
      isAtIt = false
    }
    return work(leaveOnce).finally(leaveOnce)
  }

  /** In a thread of its own, which ends with it. @throws Failure operation_refused; the signal's reason */
  async #apart<Name extends keyof Works>(name: Name, args: Arguments<Name>, signal?: AbortSignal) {
    const script = import.meta.url.endsWith('.ts') ? './apart-worker.ts' : './apart-worker.js'
    const worker = new Worker(new URL(script, import.meta.url))
    const channel = new ThreadChannel(worker, {})
    worker.once('error', (error) => channel.close(error))
    worker.once('exit', () => channel.close(new Error('its thread has ended')))
    try {
      const done = channel.call<Awaited<ReturnType<Works[Name]>>>(name, this.#config, ...args).catch(refused)
      return await (signal ? unlessAborted(done, signal) : done)
    } finally {
      await worker.terminate()
    }
  }
}

function refused(error: unknown): never {
  throw fail('operation_refused', { reason: messageOf(error) })
}
