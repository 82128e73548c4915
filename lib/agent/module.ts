// An agent out of a file of the operator's own [agent.runtime module]: it stands behind the same port as the built-in one. The file
// holds an agent, or a compiled LangGraph.js graph.
import { pathToFileURL } from 'node:url'
import { InProcessGraph, isCompiledGraph } from './langgraph/compiled.ts'
import { createGraphAgent } from './langgraph/graph-agent.ts'
import { saverBeside } from './langgraph/luggage.ts'
import type { Agent, ModelInfo } from './runtime.ts'

/**
 * Loads the file. It exports `start(input, sink, signal)` and may export `models()` and `forget(threadId)`, by name or on its default
 * export; or it exports a compiled graph: as default, as `graph`, or under any name when it is the only one.
 * @param path absolute
 * @throws Error that says what the file lacks; what the file throws while it is loaded
 */
export async function loadAgent(path: string): Promise<Agent> {
  const file: unknown = await import(pathToFileURL(path).href)
  const agent = [file, memberOf(file, 'default')].find((one) => typeof memberOf(one, 'start') === 'function')
  // Only now that it has a start; what start does with its arguments is the file's own affair.
  if (agent !== undefined) return agentOf(agent as Partial<Agent> & Pick<Agent, 'start'>)
  const named = [memberOf(file, 'default'), memberOf(file, 'graph')]
  // A module is an object.
  const graph = [...named, ...Object.values(file as object)].find(isCompiledGraph)
  if (graph !== undefined) return createGraphAgent(new InProcessGraph(graph, saverBeside(path)))
  throw new Error(`${path} exports no function start(input, sink, signal), and no compiled graph`)
}

function agentOf(agent: Partial<Agent> & Pick<Agent, 'start'>): Agent {
  return {
    start: (input, sink, signal) => agent.start(input, sink, signal),
    models: () => agent.models?.() ?? [unnamed],
    forget: async (threadId) => agent.forget?.(threadId)
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
