// Erases an account until no byte of it is left: by the server that is running, or where there is none by this process.
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Actor } from '../auth/audit.ts'
import type { Config } from '../config/config.ts'
import { lockPremises } from '../files/home.ts'
import { Paths } from '../files/paths.ts'
import type { Committer } from '../run/commit/committer.ts'
import { departureDeed } from '../jobs/departures.ts'
import { JobRunner } from '../jobs/runner.ts'
import { isInUse, openStore, pruneDatabase } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import type { User } from '../base/accounts.ts'
import { LEAD_AGENT } from '../thread/personas.ts'
import { auditOf, beside } from './operator.ts'
import { withPeople } from './people.ts'

/** How long the server may take, in ms: it looks again after half a minute, for what was under way. */
const WAIT_MS = 15 * 60_000
const LOOK_MS = 500
const ATTEMPTS = { attempts: 3, retryMs: 200, retryMsMax: 1000 } as const

interface Erased {
  /** Files beside SQLite's database which have what there was: copies that a migration has made, and the file that a move has left. */
  readonly copies: readonly string[]
}

/**
 * Resolves when no row and no file has anything of it, but the audit its id; SQLite's file is written anew without what was deleted.
 * @throws Error when that fails or takes too long; the next server goes on with it
 */
export async function eraseAccount(config: Config, { id }: User, by: Actor): Promise<Erased> {
  await withPeople(config, (people) => people.erase(id, by))
  const isLeft = () => beside(config, (store) => isUnderWay(store, id))
  for (const end = Date.now() + WAIT_MS; await isLeft(); ) {
    if (Date.now() > end) throw new Error(`The server is still at it: colloquy jobs list shows departure ${id}`)
    if (await isInUse(config)) await pause(LOOK_MS)
    else await removeHere(config, id)
  }
  const { backend, sqlite_path } = config.database
  const copies = await copiesOf(sqlite_path, backend !== 'sqlite')
  if (backend !== 'sqlite') return { copies }
  await pruneDatabase(config).catch((error: Error) => {
    throw new Error(`It is erased, but its bytes are still in the file: run colloquy prune --now (${error.message})`)
  })
  return { copies }
}

/** @throws Error when it has failed for good */
async function isUnderWay({ jobs }: Store, id: string): Promise<boolean> {
  const job = await jobs.get('departure', id)
  if (job?.due_at === null)
    throw new Error(`It has failed (${job.last_error ?? 'nobody knows why'}): colloquy jobs retry departure ${id}`)
  return job !== null
}

/** The work of the server, with no runs, streams and requests. */
async function removeHere(config: Config, id: string): Promise<void> {
  const { backend, sqlite_path: databaseFile } = config.database
  const unlock = backend === 'sqlite' ? lockPremises({ home: config.home, canShare: false, databaseFile }) : null
  try {
    await beside(config, (store, writer) => workOff(store, writer, config, id), openStore)
  } finally {
    unlock?.()
  }
}

async function workOff(store: Store, writer: Committer, { home }: Config, id: string): Promise<void> {
  const paths = new Paths(home)
  const audit = auditOf(writer)
  const self = randomUUID()
  const deed = departureDeed({
    isHeld: (userId) => store.holds.isHeld('account', userId),
    threadsOf: (userId, limit) => store.threads.idsOf(userId, limit),
    removeThread: async (threadId) => {
      await writer.write({ name: 'thread.remove', thread_id: threadId, user: null })
      await paths.removeThread(threadId, id)
    },
    // No project is loaded here, whose graphs would say what they are called.
    agents: () => [LEAD_AGENT],
    forget: (userId) => paths.removeUser(userId),
    write: (ops) => writer.writeAll(ops),
    purge: async () => store.purge?.(),
    erased: (userId, by) => audit.erased(userId, by),
    againMs: 0
  })
  const runner = new JobRunner({
    reads: store.jobs,
    owner: () => self,
    write: (ops) => writer.writeAll(ops),
    types: { departure: { ...ATTEMPTS, deed } },
    log: { warn: () => {} }
  })
  runner.start()
  try {
    while (await isUnderWay(store, id)) await pause(LOOK_MS / 10)
  } finally {
    await runner.stop()
  }
}

/** @param isMoved the rows are in another database, and the file is one that they were moved from */
async function copiesOf(file: string, isMoved: boolean): Promise<string[]> {
  // Without SQLite there may be no such folder.
  const names = await readdir(dirname(file)).catch(() => [])
  const own = basename(file)
  const isCopy = (name: string) => (name.startsWith(`${own}.`) && name.endsWith('.bak')) || (isMoved && name === own)
  return names.filter(isCopy).sort()
}
