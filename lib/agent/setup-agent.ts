// The tool that makes a persona of a conversation about it: pages begin one in which the model asks what the new agent is for.
import type { JsonObject } from '../base/types.ts'
import type { Tool, ToolSource } from './tool.ts'

/** Where personas are kept. */
interface PersonaPort {
  /** Creates it, or changes what is given of the one with this name. Errors have a text for the model. */
  save(name: string, user: string, content: PersonaContent): Promise<void>
}

interface PersonaContent {
  readonly description: string
  readonly instructions: string
  /** null: all skills. */
  readonly skills: readonly string[] | null
}

/** Offered only in a run whose context has `is_bootstrap` and names the agent to be made. */
export function setupAgentTool(personas: PersonaPort): ToolSource {
  return {
    open: async ({ is_bootstrap, agent_name: name }) => ({
      tools: is_bootstrap === true && typeof name === 'string' && name !== '' ? [setupAgent(name, personas)] : [],
      close: () => {}
    })
  }
}

function setupAgent(name: string, personas: PersonaPort): Tool {
  return {
    name: 'setup_agent',
    isRepeatable: true,
    description: [
      `Saves the agent "${name}", which this conversation is about.`,
      'First ask its user what it is for and how it should answer. Call it when that is clear, or when you are asked to save.'
    ].join(' '),
    parameters: parameters(),
    async run({ soul, description, skills = null }, { userId }) {
      if (userId === null) throw new Error('Only a signed-in user has agents')
      if (typeof soul !== 'string' || typeof description !== 'string')
        throw new Error('soul and description must be texts')
      if (skills !== null && !(Array.isArray(skills) && skills.every((one) => typeof one === 'string')))
        throw new Error('skills must be a list of names')
      await personas.save(name, userId, { description, instructions: soul, skills: skills as string[] | null })
      return { content: `The agent ${name} is saved.`, channels: { created_agent_name: name.toLowerCase() } }
    }
  }
}

function parameters(): JsonObject {
  return {
    type: 'object',
    properties: {
      soul: { type: 'string', description: 'All its instructions: who it is, what it does, how it answers' },
      description: { type: 'string', description: 'What it does, in one line' },
      skills: {
        type: 'array',
        items: { type: 'string' },
        description: 'Names of the only skills that it has; default all'
      }
    },
    required: ['soul', 'description']
  }
}
