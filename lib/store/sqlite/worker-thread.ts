// The worker threads of this store: where their scripts lie, how they are begun anew after a crash, and how they are stopped.
import { Worker } from 'node:worker_threads'
import { codeOf, messageOf } from '../../base/errors.ts'
import { ThreadChannel } from '../../base/thread-channel.ts'

/** `name.ts` in the sources, `name.js` in the build. */
export function scriptOf(name: string): URL {
  return new URL(`./${name}.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
}

/** Begins a thread, in it. Its end is told with the words of the error: between threads one of SQLite's would lose all but its code. */
export function beginThread(serve: () => void): void {
  try {
    serve()
  } catch (error) {
    throw Object.assign(new Error(messageOf(error)), { code: codeOf(error) })
  }
}

/** A thread that is begun when it is first needed, and again after a crash. */
export class StoreThread {
  readonly #name: string
  readonly #workerData: object
  readonly #heapMb: number
  #running: { readonly worker: Worker; readonly channel: ThreadChannel } | null = null

  constructor(name: string, workerData: object, heapMb: number) {
    this.#name = name
    this.#workerData = workerData
    this.#heapMb = heapMb
  }

  /** Calls over it reject when the thread ends before it has answered. */
  get channel(): ThreadChannel {
    this.#running ??= this.#begin()
    return this.#running.channel
  }

  #begin(): { worker: Worker; channel: ThreadChannel } {
    const resourceLimits = { maxOldGenerationSizeMb: this.#heapMb }
    const worker = new Worker(scriptOf(this.#name), { workerData: this.#workerData, resourceLimits })
    // It must not keep the process alive; a request that waits has a socket that does.
    worker.unref()
    const channel = new ThreadChannel(worker, {})
    const gone = (error: Error): void => {
      channel.close(error)
      if (this.#running?.worker === worker) this.#running = null
    }
    worker.on('error', gone)
    worker.on('exit', () => gone(new Error(`the ${this.#name} thread has ended`)))
    return { worker, channel }
  }

  /** Resolves when the thread has closed its connection and ended. */
  stop(): Promise<void> {
    const running = this.#running
    return running ? stopped(running.worker, () => running.channel.send('stop')) : Promise.resolve()
  }
}

/** Resolves when a thread that was asked to stop has ended. */
export async function stopped(worker: Worker | null, ask: (worker: Worker) => void): Promise<void> {
  if (!worker) return
  // An unref'd worker must keep the process alive while it is waited for.
  worker.ref()
  await new Promise<void>((resolve) => {
    worker.once('exit', () => resolve())
    ask(worker)
  })
}
