// A store under a bench: ours, or somebody else's, opened empty in a folder of its own, with a run to write to.
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type DatabaseOptions, openStore as openConfigured, type ModuleRef } from '../lib/store/open.ts'
import type { Op, Store } from '../lib/store/store.ts'
import { newThread } from '../lib/thread/thread.ts'
import { timestamp } from '../lib/base/types.ts'
import { aRun } from '../test/contract/harness.ts'

/** Where its events go. */
export type EventBackend = 'db' | 'jsonl' | ModuleRef

/**
 * Opens a store with all its files in `folder`. `given`: memory, a postgres:// address, or a module as the configuration takes them;
 * null: SQLite.
 */
export function openStore(given: string | null, folder: string, events: EventBackend = 'db'): Promise<Store> {
  mkdirSync(folder, { recursive: true })
  const options = { home: folder, run_events: { backend: events }, database: databaseOf(given, folder) }
  return openConfigured(options, () => {})
}

/** Opens an empty one and closes it when the work is done; what it keeps on disk goes into the folder, which is removed afterwards. */
export async function withStore<T>(
  given: string | null,
  work: (store: Store, folder: string) => Promise<T>
): Promise<T> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const store = await openStore(given, home)
  try {
    return await work(store, home)
  } finally {
    await store.close()
    rmSync(home, { recursive: true, force: true })
  }
}

function databaseOf(given: string | null, home: string): DatabaseOptions {
  const common = { sqlite_path: join(home, 'bench.db'), postgres_url: given }
  if (given === null) return { ...common, backend: 'sqlite' }
  if (given === 'memory') return { ...common, backend: 'memory' }
  if (/^postgres(ql)?:/.test(given)) return { ...common, backend: 'postgres' }
  return { ...common, backend: { module: resolve(given), options: {} } }
}

/** The ops that make a thread and a run in it. */
export function newRunOps(thread_id: string, run_id: string, user_id: string | null = null): Op[] {
  const now = timestamp()
  const run = aRun(thread_id, { run_id, user_id, created_at: now, updated_at: now })
  const thread = newThread({ thread_id, user_id, assistant_id: null, metadata: {} }, now)
  return [
    { name: 'thread.create', ...thread },
    { name: 'run.create', run, autoFollowUp: false }
  ]
}

/** Makes a thread with one run, under names that were never used: the database may be somebody's. */
export async function makeRun(store: Store): Promise<{ readonly key: number; readonly threadId: string }> {
  const threadId = `bench-${randomUUID()}`
  const [outcome] = await store.apply([{ ops: newRunOps(threadId, `${threadId}-run`) }])
  if (!outcome?.ok) throw new Error(`the bench could not make its runs: ${outcome?.message}`)
  // The second op answers an admission.
  return { key: (outcome.results[1] as { run: { key: number } }).run.key, threadId }
}
