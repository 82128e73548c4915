// Skills: the prompt lists the enabled ones and when to use them; the model reads them with a tool.
import type { JsonObject } from '../../base/types.ts'
import type { Tool, ToolSource } from '../tool.ts'
import { type Middleware, oncePerRun } from '../middleware.ts'

/** Access to skills for the agent. */
interface SkillsPort {
  list(): Promise<readonly { readonly name: string; readonly description: string; readonly enabled: boolean }[]>
  /** A text file of an enabled skill, by its path in the skill's folder; null when there is none. */
  readFile(name: string, path: string): Promise<string | null>
}

const TAG = 'skills'
const MAIN = 'SKILL.md'
const HEAD = 'Skills: instructions for special work. When one fits, read it with read_skill first and follow it.'

export function skillsMiddleware(skills: SkillsPort): Middleware {
  const isFirst = oncePerRun()
  return {
    tag: TAG,
    async beforeModel(run) {
      // Once per run: enabling or disabling affects new runs only.
      if (!isFirst(run)) return
      const lines = (await offered(skills, run.input.context)).map(lineOf)
      run.instruct(TAG, lines.length === 0 ? null : [HEAD, ...lines].join('\n'))
    }
  }
}

/** Those that are enabled; an assistant may name which of them it has. */
async function offered(skills: SkillsPort, context: JsonObject) {
  const names = context.skills
  const isMeant = (name: string) => !Array.isArray(names) || names.includes(name)
  return (await skills.list()).filter(({ name, enabled }) => enabled && isMeant(name))
}

function lineOf({ name, description }: { name: string; description: string }): string {
  return `- ${name}: ${description.replace(/\s+/gu, ' ')}`
}

/** The tool to read skills, offered only if there are any. */
export function skillTools(skills: SkillsPort): ToolSource {
  const tool = readSkillTool(skills)
  return {
    open: async (context) => ({
      tools: (await offered(skills, context)).length > 0 ? [tool] : [],
      close: () => {}
    })
  }
}

function readSkillTool(skills: SkillsPort): Tool {
  return {
    name: 'read_skill',
    isRepeatable: true,
    description: 'Reads a file of a skill. Without a path: its instructions.',
    parameters: {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'Name of the skill' },
        path: { type: 'string', description: `Path inside the skill; default ${MAIN}` }
      },
      required: ['name']
    },
    async run({ name, path = MAIN }) {
      if (typeof name !== 'string' || typeof path !== 'string') throw new Error('name and path must be texts')
      const text = await skills.readFile(name, path)
      if (text === null) throw new Error(`There is no "${path}" in a skill "${name}" that is switched on`)
      return text
    }
  }
}
