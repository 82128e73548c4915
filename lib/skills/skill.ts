// A skill: a folder with a SKILL.md that tells an agent how to do something, and its files.
import * as v from 'valibot'
import { parse } from 'yaml'

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

export type SkillHead = Pick<Skill, 'name' | 'description' | 'license'>

/** An invalid skill; the text is for its author. */
export class SkillError extends Error {
  override readonly name = 'SkillError'
}

export const SKILL_FILE = 'SKILL.md'
export const SKILL_NAME = /^[a-z0-9]+(-[a-z0-9]+)*$/
const NAME_MAX = 64
const DESCRIPTION_MAX = 1024
const CONTENT_MAX = 256 * 1024
/** Of the front matter: four times the longest description. The parser takes 0.2 ms a key, more for each before it. */
const HEAD_MAX = 4096
/** Where it is nested deeper the parser recurses until the stack is full, and a regular expression compiled there aborts the process. */
const NESTING_MAX = 32

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
  if (yaml.length > HEAD_MAX)
    throw new SkillError(`The front matter of ${SKILL_FILE} is longer than ${HEAD_MAX} characters`)
  if (isNestedBelow(yaml, NESTING_MAX))
    throw new SkillError(`The front matter of ${SKILL_FILE} has more than ${NESTING_MAX} levels`)
  const parsed = v.safeParse(Head, parseYaml(yaml))
  if (parsed.success) return parsed.output
  const [first] = parsed.issues
  const key = first.path?.map((item) => String(item.key)).join('.')
  throw new SkillError(
    `The front matter of ${SKILL_FILE}: ${key ?? 'it'} ${key && first.input === undefined ? 'is missing' : first.message}`
  )
}

/** Whether brackets, or the indicators at the start of a line, may nest deeper than this. Text counts too: a head has little of it. */
function isNestedBelow(yaml: string, most: number): boolean {
  let depth = 0
  for (const char of yaml) {
    if (char === '[' || char === '{') depth++
    else if ((char === ']' || char === '}') && depth > 0) depth--
    if (depth > most) return true
  }
  return yaml.split('\n').some((line) => indicatorsOf(line) > most)
}

function indicatorsOf(line: string): number {
  const [indicators = ''] = /^(?:[-?:]?\s)*/.exec(line) ?? []
  return indicators.replace(/\s/g, '').length
}

function parseYaml(yaml: string): unknown {
  try {
    // Aliases could expand a few lines to gigabytes.
    return parse(yaml, { maxAliasCount: 0, prettyErrors: false })
  } catch {
    throw new SkillError(`The front matter of ${SKILL_FILE} is not valid YAML`)
  }
}
