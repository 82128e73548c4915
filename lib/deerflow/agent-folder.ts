// Custom agents as files, where DeerFlow's own agent looks for them: in its home, which is ours, `users/<id>/agents/<name>/` with a
// configuration and what it is like. The assistants are what counts; the files follow them.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JsonObject } from '../base/types.ts'
import type { Services } from '../routes/services.ts'

/** What of an agent stands in its configuration, under the names of its routes. */
const IN_CONFIGURATION = ['name', 'description', 'model', 'tool_groups', 'skills'] as const
const SOUL = 'SOUL.md'
/** JSON is YAML. */
const CONFIGURATION = 'config.yaml'

export class AgentFolders {
  readonly #paths: Pick<Services['paths'], 'userDir'>

  constructor(paths: Pick<Services['paths'], 'userDir'>) {
    this.#paths = paths
  }

  /** @param agent as its route shows it */
  async write(userId: string, agent: JsonObject): Promise<void> {
    const folder = this.#folder(userId, String(agent.name))
    await mkdir(folder, { recursive: true })
    const configuration = Object.fromEntries(IN_CONFIGURATION.map((name) => [name, agent[name] ?? null]))
    await writeFile(join(folder, CONFIGURATION), JSON.stringify(configuration))
    await writeFile(join(folder, SOUL), String(agent.soul ?? ''))
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
