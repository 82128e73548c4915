// The skills of an installation, public and custom, each a folder.
//
//   <skills.path>/<name>/SKILL.md            public: read only
//   <home>/skills/custom/<name>/...          custom
//   <home>/skills/history/<name>.jsonl       earlier versions of a custom SKILL.md
//   <home>/skills/incoming/<uuid>/           an archive being unpacked
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as v from 'valibot'
import { type ArchiveLimits, type Member, readArchive } from '../files/archive.ts'
import type { Extensions, ExtensionsFile } from '../files/extensions.ts'
import { changing } from '../files/home.ts'
import { kindOf, nullIfMissing } from '../files/paths.ts'
import { readYaml, YamlError } from '../files/yaml.ts'

// ---------------------- A skill: a folder with a SKILL.md that tells an agent how to do something, and its files

export interface Skill {
  /** Lower-case letters, digits and hyphens; also the name of its folder. */
  readonly name: string
  /** When to use it; all a model sees of a skill before reading it. */
  readonly description: string
  readonly license: string | null
  /** public: part of the installation; custom: added later. */
  readonly category: 'public' | 'custom'
  readonly enabled: boolean
}

type SkillHead = Pick<Skill, 'name' | 'description' | 'license'>

/** An invalid skill; the text is for its author. */
export class SkillError extends Error {
  override readonly name = 'SkillError'
}

const SKILL_FILE = 'SKILL.md'
const SKILL_NAME = /^[a-z0-9]+(-[a-z0-9]+)*$/
const NAME_MAX = 64
const DESCRIPTION_MAX = 1024
const CONTENT_MAX = 256 * 1024
/** Earlier versions of a skill: everybody may ask for all of them at once. */
const HISTORY_MAX = 50
/** Of the front matter: four times the longest description. */
const HEAD_MAX = 4096

const Head = v.object({
  name: v.pipe(
    v.string('must be a text'),
    v.maxLength(NAME_MAX, `must have at most ${NAME_MAX} characters`),
    v.regex(SKILL_NAME, 'must consist of lower-case letters, digits and single hyphens')
  ),
  description: v.pipe(
    v.string('must be a text'),
    v.trim(),
    v.minLength(1, 'must not be empty'),
    v.maxLength(DESCRIPTION_MAX, `must have at most ${DESCRIPTION_MAX} characters`)
  ),
  license: v.nullish(v.string('must be a text'), null)
})

/**
 * Reads the front matter of a SKILL.md.
 * @throws SkillError
 */
export function readHead(content: string): SkillHead {
  if (content.length > CONTENT_MAX) throw new SkillError(`${SKILL_FILE} is longer than ${CONTENT_MAX} characters`)
  const yaml = /^---\r?\n([\s\S]*?)\r?\n---(\r?\n|$)/.exec(content.replace(/^\uFEFF/, ''))?.[1]
  if (yaml === undefined)
    throw new SkillError(`${SKILL_FILE} does not begin with front matter between two lines of ---`)
  const parsed = v.safeParse(Head, parseHead(yaml))
  if (parsed.success) return parsed.output
  const [first] = parsed.issues
  const key = first.path?.map((item) => String(item.key)).join('.')
  throw new SkillError(
    `The front matter of ${SKILL_FILE}: ${key ?? 'it'} ${key && first.input === undefined ? 'is missing' : first.message}`
  )
}

function parseHead(yaml: string): unknown {
  try {
    return readYaml(yaml, HEAD_MAX)
  } catch (error) {
    if (error instanceof YamlError) throw new SkillError(`The front matter of ${SKILL_FILE} ${error.message}`)
    throw error
  }
}

/** An edit of a custom skill, with its SKILL.md before the edit. */
interface SkillEdit {
  readonly edited_at: string
  readonly action: 'edit' | 'rollback'
  readonly content: string
}

const LIMITS: ArchiveLimits = { members: 1000, memberBytes: 16 << 20, totalBytes: 64 << 20 }
/** Maximum characters of a skill's file for a model. */
const FILE_MAX = 256 * 1024

interface SkillsOptions {
  readonly home: string
  /** Folder of public skills, or null. */
  readonly publicPath: string | null
  readonly extensions: Extensions
  /** Called for a folder that is not a valid skill; it is left out. */
  onBroken?(path: string, error: unknown): void
}

export class Skills {
  readonly #options: SkillsOptions
  readonly #custom: string
  readonly #history: string
  readonly #incoming: string

  constructor(options: SkillsOptions) {
    this.#options = options
    const root = join(options.home, 'skills')
    this.#custom = join(root, 'custom')
    this.#history = join(root, 'history')
    this.#incoming = join(root, 'incoming')
  }

  /** Sorted by name. A custom skill hides a public one with the same name. */
  async list(): Promise<Skill[]> {
    const { publicPath, extensions } = this.#options
    const [own, given, { skills }] = await Promise.all([
      this.#inFolder(this.#custom, 'custom'),
      publicPath === null ? [] : this.#inFolder(publicPath, 'public'),
      extensions.read()
    ])
    const all = new Map([...given, ...own].map((skill) => [skill.name, skill]))
    return [...all.values()]
      .map((skill) => ({ ...skill, enabled: isEnabled(skills, skill.name) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** null: no such skill. */
  async get(name: string): Promise<Skill | null> {
    return (await this.list()).find((skill) => skill.name === name) ?? null
  }

  /** null: no such skill. */
  async enable(name: string, enabled: boolean): Promise<Skill | null> {
    const skill = await this.get(name)
    if (!skill) return null
    await this.#options.extensions.change((file) => ({ ...file, skills: { ...file.skills, [name]: { enabled } } }))
    return { ...skill, enabled }
  }

  /**
   * A file of an enabled skill, for an agent.
   * @param path relative to the skill's folder
   * @returns null: no such skill or file
   */
  async readFile(name: string, path: string): Promise<string | null> {
    const skill = await this.get(name)
    if (!skill?.enabled) return null
    const parts = path.split('/')
    if (/[\\\0]/.test(path) || parts.some((part) => part === '' || part === '.' || part === '..')) return null
    let at = skill.category === 'custom' ? join(this.#custom, name) : join(this.#options.publicPath ?? '', name)
    for (const part of parts) {
      at = join(at, part)
      if ((await kindOf(at)) === 'link') return null
    }
    if ((await kindOf(at)) !== 'file') return null
    const text = await readFile(at, 'utf8')
    return text.length > FILE_MAX ? `${text.slice(0, FILE_MAX)}\n[cut after ${FILE_MAX} characters]` : text
  }

  // ---------------------------------------------------------------------------------------------- custom ones

  /**
   * Installs a `.skill` archive; nothing is written before the whole archive was checked.
   * @returns null: a custom skill with that name exists
   * @throws ArchiveError, SkillError
   */
  async install(archive: string): Promise<Skill | null> {
    const { head, files } = skillOf(await readArchive(archive, LIMITS))
    return changing(this.#options.home, async () => {
      if ((await kindOf(join(this.#custom, head.name))) !== null) return null
      const draft = join(this.#incoming, randomUUID())
      try {
        for (const { path, content } of files) await writeNew(join(draft, path), content)
        await mkdir(this.#custom, { recursive: true })
        await rename(draft, join(this.#custom, head.name))
      } finally {
        await rm(draft, { recursive: true, force: true })
      }
      return { ...head, category: 'custom' as const, enabled: true }
    })
  }

  /** The SKILL.md of a custom skill; null: no such skill. */
  async content(name: string): Promise<string | null> {
    if (!SKILL_NAME.test(name)) return null
    return readFile(join(this.#custom, name, SKILL_FILE), 'utf8').catch(nullIfMissing)
  }

  /**
   * Replaces the SKILL.md of a custom skill and keeps the old one in its history, which has the newest of them.
   * @returns false: no such skill
   * @throws SkillError for an invalid text, or another name in it
   */
  async edit(name: string, content: string, action: SkillEdit['action'] = 'edit'): Promise<boolean> {
    if (readHead(content).name !== name) throw new SkillError('The name in the front matter must stay the same')
    return changing(this.#options.home, async () => {
      const before = await this.content(name)
      if (before === null) return false
      const edit: SkillEdit = { edited_at: new Date().toISOString(), action, content: before }
      await this.#remember(name, edit)
      const folder = join(this.#custom, name)
      const draft = join(folder, `.${randomUUID()}.part`)
      await writeNew(draft, content)
      await rename(draft, join(folder, SKILL_FILE))
      return true
    })
  }

  /** Oldest first; null: no such custom skill. */
  async history(name: string): Promise<SkillEdit[] | null> {
    return (await this.content(name)) === null ? null : this.#edits(name)
  }

  /** @returns false: no such skill */
  async remove(name: string): Promise<boolean> {
    if (!SKILL_NAME.test(name)) return false
    const { home, extensions } = this.#options
    const isRemoved = await changing(home, async () => {
      const folder = join(this.#custom, name)
      if ((await kindOf(folder)) === null) return false
      await rm(folder, { recursive: true, force: true })
      await rm(this.#historyOf(name), { force: true })
      return true
    })
    if (isRemoved) await extensions.change((file) => ({ ...file, skills: without(file.skills, name) }))
    return isRemoved
  }

  // -------------------------------------------------------------------------------------------------- inside

  async #edits(name: string): Promise<SkillEdit[]> {
    const text = (await readFile(this.#historyOf(name), 'utf8').catch(nullIfMissing)) ?? ''
    return text.split('\n').flatMap(readEdit)
  }

  async #remember(name: string, edit: SkillEdit): Promise<void> {
    const kept = [...(await this.#edits(name)), edit].slice(-HISTORY_MAX)
    const draft = join(this.#history, `.${randomUUID()}.part`)
    await writeNew(draft, kept.map((one) => `${JSON.stringify(one)}\n`).join(''))
    await rename(draft, this.#historyOf(name))
  }

  async #inFolder(folder: string, category: Skill['category']): Promise<Skill[]> {
    const names = (await readdir(folder).catch(nullIfMissing)) ?? []
    const found = await Promise.all(
      names.filter((name) => SKILL_NAME.test(name)).map((name) => this.#headIn(folder, name))
    )
    return found.flatMap((head) => (head ? [{ ...head, category, enabled: true }] : []))
  }

  async #headIn(folder: string, name: string): Promise<SkillHead | null> {
    const path = join(folder, name, SKILL_FILE)
    try {
      const content = await readFile(path, 'utf8').catch(nullIfMissing)
      if (content === null) return null
      const head = readHead(content)
      if (head.name !== name) throw new SkillError(`Its front matter calls it "${head.name}"`)
      return head
    } catch (error) {
      this.#options.onBroken?.(path, error)
      return null
    }
  }

  #historyOf(name: string): string {
    return join(this.#history, `${name}.jsonl`)
  }
}

/** The skill in an archive: at the top, or in a single folder, which is removed from the paths. */
function skillOf(members: readonly Member[]): { head: SkillHead; files: Member[] } {
  const [main] = members
    .filter(({ path }) => path === SKILL_FILE || /^[^/]+\/SKILL\.md$/.test(path))
    .sort((a, b) => a.path.length - b.path.length)
  if (!main) throw new SkillError(`The archive has no ${SKILL_FILE}`)
  const top = main.path.slice(0, -SKILL_FILE.length)
  if (members.some(({ path }) => !path.startsWith(top))) throw new SkillError('The archive holds more than one folder')
  const head = readHead(main.content.toString('utf8'))
  return { head, files: members.map(({ path, content }) => ({ path: path.slice(top.length), content })) }
}

function isEnabled(skills: ExtensionsFile['skills'], name: string): boolean {
  const entry = Object.hasOwn(skills, name) ? skills[name] : undefined
  return !(typeof entry === 'object' && entry !== null && !Array.isArray(entry) && entry.enabled === false)
}

function without(skills: ExtensionsFile['skills'], name: string): ExtensionsFile['skills'] {
  return Object.fromEntries(Object.entries(skills).filter(([key]) => key !== name))
}

async function writeNew(path: string, content: Buffer | string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content, { flag: 'wx', mode: 0o644 })
}

/** Ignores a line that was cut by a crash. */
function readEdit(line: string): SkillEdit[] {
  if (line === '') return []
  try {
    // Written by `edit`.
    return [JSON.parse(line) as SkillEdit]
  } catch {
    return []
  }
}
