// Memories of all users: one JSON file per user and agent below the data home, or one configured file for all.
//
//   <home>/users/<user_id>/memory.json
//   <home>/users/<user_id>/agents/<agent, lower case>/memory.json
//
// Files are read on every access, so that manual edits take effect at once. Changes are serialised.
import { readdir, readFile, rename } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { atomicWrite } from '../files/extensions.ts'
import { changing } from '../files/home.ts'
import { nullIfMissing, type Paths } from '../files/paths.ts'
import { emptyMemory, type Memory, parseMemory, withoutSource } from './memory.ts'

/** Owner of a memory: keyed by user and agent. */
export interface MemoryOwner {
  readonly userId: string
  /** null: the lead agent. */
  readonly agentName: string | null
}

interface MemoriesOptions {
  /** '': one file per user. An absolute path: one file for the lead agent of all users. */
  readonly storagePath: string
  /** Called for an invalid memory file, which was renamed. */
  onDamaged?(path: string): void
}

const AGENT_NAME = /^[A-Za-z0-9_-]{1,64}$/

export class Memories {
  readonly #paths: Paths
  readonly #options: MemoriesOptions

  constructor(paths: Paths, options: MemoriesOptions) {
    this.#paths = paths
    this.#options = options
  }

  /** @throws PathError for an unsafe user id; Error for an unsafe agent name */
  pathOf({ userId, agentName }: MemoryOwner): string {
    if (agentName !== null && !AGENT_NAME.test(agentName)) throw new Error('This agent name cannot be part of a path')
    const { storagePath } = this.#options
    if (agentName === null && isAbsolute(storagePath)) return storagePath
    const folder = this.#paths.userDir(userId)
    return agentName === null
      ? join(folder, 'memory.json')
      : join(folder, 'agents', agentName.toLowerCase(), 'memory.json')
  }

  /** An empty memory if there is none yet. */
  async read(owner: MemoryOwner): Promise<Memory> {
    return this.#read(this.pathOf(owner))
  }

  /**
   * Changes a memory atomically, after all earlier changes, also of other processes.
   * @param change returns null to change nothing
   * @returns the new memory, or what `change` returned
   */
  async change<Changed extends Memory | null>(
    owner: MemoryOwner,
    change: (memory: Memory) => Changed
  ): Promise<Changed> {
    const path = this.pathOf(owner)
    return changing(this.#paths.home, async () => {
      const changed = change(await this.#read(path))
      if (changed !== null) await atomicWrite(path, JSON.stringify(changed, null, 2), 0o600)
      return changed
    })
  }

  /** No fact of the user names a deleted thread as its source any longer. */
  async forgetThread(userId: string, threadId: string): Promise<void> {
    const agents = (await readdir(join(this.#paths.userDir(userId), 'agents')).catch(nullIfMissing)) ?? []
    for (const agentName of [null, ...agents.filter((name) => AGENT_NAME.test(name))])
      await this.change({ userId, agentName }, (memory) => withoutSource(memory, threadId))
  }

  async #read(path: string): Promise<Memory> {
    const json = await readFile(path, 'utf8').catch(nullIfMissing)
    if (json === null) return emptyMemory()
    const memory = parseMemory(json)
    if (memory) return memory
    // Keeps the invalid file, because somebody may want to repair it.
    await rename(path, `${path}.damaged`)
    this.#options.onDamaged?.(path)
    return emptyMemory()
  }
}
