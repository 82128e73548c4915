// The worker threads of this store: where their scripts lie, and how they are stopped.
import type { Worker } from 'node:worker_threads'

/** `name.ts` in the sources, `name.js` in the build. */
export function scriptOf(name: string): URL {
  return new URL(`./${name}.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
}

/** Resolves when the thread has closed its connection and ended. */
export async function stopped(worker: Worker | null): Promise<void> {
  if (!worker) return
  // An unref'd worker must keep the process alive while it is waited for.
  worker.ref()
  await new Promise<void>((resolve) => {
    worker.once('exit', () => resolve())
    worker.postMessage('stop')
  })
}
