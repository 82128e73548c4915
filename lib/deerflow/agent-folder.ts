// Custom agents as files, where DeerFlow's own agent looks for them: in its home, which is ours, `users/<id>/agents/<name>/` with a
// configuration and what it is like. The assistants are what counts; the files follow them.
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../base/types.ts'
import { nullIfMissing, type Paths } from '../files/paths.ts'
import { readYaml, YamlError } from '../files/yaml.ts'

/** What of an agent stands in its configuration, under the names of its routes. */
const IN_CONFIGURATION = ['name', 'description', 'model', 'tool_groups', 'skills'] as const
const SOUL = 'SOUL.md'
/** Member of a configuration that has an assistant: files whose assistant was deleted make none. DeerFlow's agent passes it over. */
const OURS = 'assistant'
/** JSON is YAML. */
const CONFIGURATION = 'config.yaml'
/** Larger files are none of agents that can be shown. */
const FILE_BYTES_MAX = 64 * 1024
/** Of a configuration that others have written: it is parsed again for each list until it is one. */
const CONFIGURATION_MAX = 8192

export class AgentFolders {
  readonly #paths: Pick<Paths, 'userDir'>

  constructor(paths: Pick<Paths, 'userDir'>) {
    this.#paths = paths
  }

  /** @param agent as its route shows it */
  async write(userId: string, agent: JsonObject): Promise<void> {
    const folder = this.#folder(userId, String(agent.name))
    await mkdir(folder, { recursive: true })
    const configuration = Object.fromEntries(IN_CONFIGURATION.map((name) => [name, agent[name] ?? null]))
    await writeFile(join(folder, CONFIGURATION), JSON.stringify({ ...configuration, [OURS]: true }))
    await writeFile(join(folder, SOUL), String(agent.soul ?? ''))
  }

  /** Names of the agents that have files: DeerFlow's own makes some in a conversation. */
  async names(userId: string): Promise<readonly string[]> {
    return (await readdir(join(this.#paths.userDir(userId), 'agents')).catch(nullIfMissing)) ?? []
  }

  /** Members of an agent that DeerFlow's own has made, to be checked like those of a request; null: it has made none. */
  async made(userId: string, name: string): Promise<JsonObject | null> {
    const [configuration, soul] = await Promise.all([CONFIGURATION, SOUL].map((file) => this.#text(userId, name, file)))
    try {
      const given: unknown = readYaml(configuration ?? '', CONFIGURATION_MAX)
      return isObject(given) && given[OURS] !== true ? { ...given, soul: soul ?? '' } : null
    } catch (error) {
      if (error instanceof YamlError) return null
      throw error
    }
  }

  async #text(userId: string, name: string, file: string): Promise<string | null> {
    const path = join(this.#folder(userId, name), file)
    const found = await stat(path).catch(nullIfMissing)
    return found?.isFile() && found.size <= FILE_BYTES_MAX ? readFile(path, 'utf8') : null
  }

  /** What it has remembered stays. */
  async remove(userId: string, name: string): Promise<void> {
    for (const file of [CONFIGURATION, SOUL]) await rm(join(this.#folder(userId, name), file), { force: true })
  }

  /** Names are letters, digits and hyphens. */
  #folder(userId: string, name: string): string {
    return join(this.#paths.userDir(userId), 'agents', name.toLowerCase())
  }
}
