// The extensions file: tool servers, and which skills are enabled. One file for both, as clients of this API expect; it
// contains secrets, so only its owner may read it.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { isObject, type JsonObject } from '../base/types.ts'
import { KeyedMutex } from '../base/keyed-mutex.ts'
import { nullIfMissing } from './paths.ts'

// ---------------------------- Atomic file writes: readers see the old content or the new one, also after a crash

/** Makes the folders on the way. @param mode of the new file, e.g. 0o600: for its owner alone */
export async function atomicWrite(path: string, content: string, mode: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${randomUUID()}.part`
  try {
    // `wx` creates a new file or fails, even on a symbolic link.
    await writeFile(draft, content, { flag: 'wx', mode })
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

export const EXTENSIONS_FILE = 'extensions_config.json'

export interface ExtensionsFile {
  readonly mcpServers: JsonObject
  /** `{ <skill>: { enabled } }`; skills are enabled by default. */
  readonly skills: JsonObject
}

export class Extensions {
  readonly path: string
  /** One change after the other. */
  readonly #changes = new KeyedMutex({ all: 1, each: 1 })

  constructor(home: string) {
    this.path = join(home, EXTENSIONS_FILE)
  }

  /** @throws Error if the file is unreadable or invalid; using part of it would lose the rest at the next change */
  async read(): Promise<ExtensionsFile> {
    const text = await readFile(this.path, 'utf8').catch(nullIfMissing)
    if (text === null) return { mcpServers: {}, skills: {} }
    const parsed: unknown = JSON.parse(text)
    if (!isObject(parsed)) throw new Error(`${this.path} is not a JSON object`)
    return { ...parsed, mcpServers: objectIn(parsed.mcpServers), skills: objectIn(parsed.skills) }
  }

  /**
   * Applies `change` to the file atomically, after all earlier changes.
   * @returns the new content
   */
  async change(change: (before: ExtensionsFile) => ExtensionsFile): Promise<ExtensionsFile> {
    return this.#changes.run('', async () => {
      const after = change(await this.read())
      await atomicWrite(this.path, JSON.stringify(after, null, 2), 0o600)
      return after
    })
  }
}

function objectIn(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}
