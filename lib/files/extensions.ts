// The extensions file: tool servers, and which skills are enabled. One file for both, as clients of this API expect; it
// contains secrets, so only its owner may read it.
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { parseJson } from '../base/json.ts'
import { isObject, type JsonObject } from '../base/types.ts'
import { changing } from './home.ts'
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

/** Encrypts the tool servers, which have secrets, with a key that is not in the home. */
interface ExtensionsSeal {
  readonly seal: (servers: JsonObject) => Promise<string>
  /** null: the key is another one. */
  readonly open: (text: string) => Promise<JsonObject | null>
}

export class Extensions {
  readonly path: string
  readonly #home: string
  /** null: they are plain. */
  readonly #seal: ExtensionsSeal | null

  constructor(home: string, seal: ExtensionsSeal | null = null) {
    this.#home = home
    this.path = join(home, EXTENSIONS_FILE)
    this.#seal = seal
  }

  /** Encrypts servers that are plain. @throws Error as `read` */
  async protect(): Promise<void> {
    if (this.#seal && Object.keys((await this.#file()).mcpServers).length > 0) await this.change((file) => file)
  }

  /** Another one whenever the file is another: each change makes a new file. */
  async stamp(): Promise<string> {
    const found = await stat(this.path).catch(nullIfMissing)
    return found === null ? '' : `${found.ino} ${found.mtimeMs} ${found.size}`
  }

  /** @throws Error if the file is unreadable or invalid; using part of it would lose the rest at the next change */
  async read(): Promise<ExtensionsFile> {
    const { sealed, ...file } = await this.#file()
    if (typeof sealed !== 'string') return file
    if (!this.#seal) throw new Error(`The tool servers in ${this.path} are encrypted: set mcp.secrets_key`)
    const mcpServers = await this.#seal.open(sealed)
    if (!mcpServers) throw new Error(`mcp.secrets_key is not the one by which ${this.path} was encrypted`)
    // Plain ones were added by hand since.
    return { ...file, mcpServers: { ...mcpServers, ...file.mcpServers } }
  }

  async #file(): Promise<ExtensionsFile & { readonly sealed?: unknown }> {
    const text = await readFile(this.path, 'utf8').catch(nullIfMissing)
    if (text === null) return { mcpServers: {}, skills: {} }
    const parsed = parseJson(text)
    if (!isObject(parsed)) throw new Error(`${this.path} is not a JSON object`)
    return { ...parsed, mcpServers: objectIn(parsed.mcpServers), skills: objectIn(parsed.skills) }
  }

  /**
   * Applies `change` to the file atomically, after all earlier changes, also of other processes.
   * @returns the new content
   */
  async change(change: (before: ExtensionsFile) => ExtensionsFile): Promise<ExtensionsFile> {
    return changing(this.#home, async () => {
      const after = change(await this.read())
      const kept = this.#seal ? { ...after, mcpServers: {}, sealed: await this.#seal.seal(after.mcpServers) } : after
      await atomicWrite(this.path, JSON.stringify(kept, null, 2), 0o600)
      return after
    })
  }
}

function objectIn(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}
