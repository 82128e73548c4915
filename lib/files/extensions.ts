// The file of what an administrator has added: tool servers, and which skills are switched on. One file for both, as clients of
// this API know it; secrets lie in it, so nobody else may read it.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type JsonObject, isObject } from '../types.ts'
import { nullIfMissing } from './paths.ts'
import { atomicWrite } from './atomic-write.ts'

export interface ExtensionsFile {
  readonly mcpServers: JsonObject
  /** `{ <skill>: { enabled } }`; a skill that is not named is on. */
  readonly skills: JsonObject
}

export class Extensions {
  readonly path: string
  /** The change before this one; changes wait for each other. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(home: string) {
    this.path = join(home, 'extensions_config.json')
  }

  /** @throws Error when the file cannot be read or is no such file: starting with half of it would lose the other half */
  async read(): Promise<ExtensionsFile> {
    const text = await readFile(this.path, 'utf8').catch(nullIfMissing)
    if (text === null) return { mcpServers: {}, skills: {} }
    const parsed: unknown = JSON.parse(text)
    if (!isObject(parsed)) throw new Error(`${this.path} holds no JSON object`)
    return { ...parsed, mcpServers: objectIn(parsed.mcpServers), skills: objectIn(parsed.skills) }
  }

  /** Writes what `change` makes of the file, whole or not at all, after all changes asked for before. @returns the new content */
  async change(change: (before: ExtensionsFile) => ExtensionsFile): Promise<ExtensionsFile> {
    const mine = this.#last.then(async () => {
      const after = change(await this.read())
      await atomicWrite(this.path, JSON.stringify(after, null, 2), 0o600)
      return after
    })
    this.#last = mine.catch(ignore)
    return mine
  }
}

function objectIn(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}

function ignore(): void {}
