// The memories of all users: one JSON file per (user, agent) below the data home, or the one shared file that is configured.
//
//   <home>/users/<user_id>/memory.json
//   <home>/users/<user_id>/agents/<agent, lower case>/memory.json
//
// A memory is read when it is asked for, so that a file edited by hand counts at once. Changes to one file wait for each other.
import { readFile, rename } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { atomicWrite } from '../files/atomic-write.ts'
import { KeyedMutex } from '../files/keyed-mutex.ts'
import { nullIfMissing, type Paths } from '../files/paths.ts'
import { emptyMemory, type Memory, parseMemory } from './memory.ts'

/** Owner of a memory: keyed by user and agent. */
export interface MemoryOwner {
  readonly userId: string
  /** null: the lead agent. */
  readonly agentName: string | null
}

export interface MemoriesOptions {
  /** '': a file a user. An absolute path: that file for the lead agent of all users. */
  readonly storagePath: string
  /** Called for an invalid memory file, which was renamed. */
  onDamaged?(path: string): void
}

const AGENT_NAME = /^[A-Za-z0-9_-]{1,64}$/

export class Memories {
  readonly #paths: Paths
  readonly #options: MemoriesOptions
  /** Changes by file: one after the other. */
  readonly #changes = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1 })

  constructor(paths: Paths, options: MemoriesOptions) {
    this.#paths = paths
    this.#options = options
  }

  /** Where the memory of an owner lies. @throws PathError for a user id that must not be part of a path; Error for such an agent */
  pathOf({ userId, agentName }: MemoryOwner): string {
    if (agentName !== null && !AGENT_NAME.test(agentName)) throw new Error('This agent name cannot be part of a path')
    const { storagePath } = this.#options
    if (agentName === null && isAbsolute(storagePath)) return storagePath
    const folder = this.#paths.userDir(userId)
    return agentName === null
      ? join(folder, 'memory.json')
      : join(folder, 'agents', agentName.toLowerCase(), 'memory.json')
  }

  /** The memory of an owner; an empty one when there is none yet. */
  async read(owner: MemoryOwner): Promise<Memory> {
    return this.#read(this.pathOf(owner))
  }

  /**
   * Changes a memory: after all changes that were asked for before, and whole or not at all.
   * @param change null leaves it as it is
   * @returns the new memory, or what `change` returned
   */
  async change<Changed extends Memory | null>(
    owner: MemoryOwner,
    change: (memory: Memory) => Changed
  ): Promise<Changed> {
    const path = this.pathOf(owner)
    return this.#changes.run(path, async () => {
      const changed = change(await this.#read(path))
      if (changed !== null) await atomicWrite(path, JSON.stringify(changed, null, 2), 0o600)
      return changed
    })
  }

  async #read(path: string): Promise<Memory> {
    const json = await readFile(path, 'utf8').catch(nullIfMissing)
    if (json === null) return emptyMemory()
    const memory = parseMemory(json)
    if (memory) return memory
    // The next write would destroy what somebody may want to mend by hand.
    await rename(path, `${path}.damaged`)
    this.#options.onDamaged?.(path)
    return emptyMemory()
  }
}
