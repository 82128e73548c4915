// An agent out of a file of the operator's own [agent.runtime module]: it stands behind the same port as the built-in one.
import { pathToFileURL } from 'node:url'
import type { Agent, ModelInfo } from './runtime.ts'

/**
 * Loads the file. It exports `start(input, sink, signal)` and may export `models()`, by name or on its default export.
 * @param path absolute
 * @throws Error that says what the file lacks; what the file throws while it is loaded
 */
export async function loadAgent(path: string): Promise<Agent> {
  const file: unknown = await import(pathToFileURL(path).href)
  const agent = [file, memberOf(file, 'default')].find((one) => typeof memberOf(one, 'start') === 'function')
  if (agent === undefined) throw new Error(`${path} exports no function start(input, sink, signal)`)
  // Only now that it has a start; what start does with its arguments is the file's own affair.
  const { start, models } = agent as Partial<Agent> & Pick<Agent, 'start'>
  return {
    start: (input, sink, signal) => start.call(agent, input, sink, signal),
    models: () => models?.call(agent) ?? [unnamed]
  }
}

const unnamed: ModelInfo = {
  name: 'module',
  model: 'module',
  display_name: null,
  description: null,
  supports_thinking: false,
  supports_reasoning_effort: false
}

function memberOf(value: unknown, name: string): unknown {
  // Any object can be asked for any member.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}
