// Loads the operator's own agent [agent.runtime module]: his file exports an agent, a generator function or a compiled LangGraph.js graph.
// Runs call it as they call the built-in one.
import { AgentFileError, imported, LOAD_MS, memberOf, sentenceOf } from '../agent/agent-file.ts'
import { checkedModels } from '../agent/check.ts'
import { contained } from '../agent/contained.ts'
import { type AgentWork, defineAgent } from '../agent/define.ts'
import type { Agent, ListedAgent } from '../agent/runtime.ts'
import { loadedGraph } from '../langgraph/project/graph-files.ts'
import type { GraphPorts } from '../langgraph/project/graph-ports.ts'
import { GraphSet, isCompiledGraph } from '../langgraph/project/graph-set.ts'
import { createGraphsAgent } from '../langgraph/project/graphs-agent.ts'

/**
 * Loads the file. It exports `start(input, sink, signal)` and may export `models()` and `forget(threadId)`, by name or on its default
 * export; or a generator function as default; or a compiled graph: as default, as `graph`, or under any name when it is the only one.
 * @param path absolute
 * @param ports for a graph; without them a file that holds one is refused
 * @throws AgentFileError
 */
export async function loadAgent(path: string, ports: GraphPorts | null = null, loadMs = LOAD_MS): Promise<ListedAgent> {
  const file = await imported(path, loadMs)
  const main = memberOf(file, 'default')
  const agent = [file, main].find((one) => typeof memberOf(one, 'start') === 'function')
  // It has a function `start`; its arguments cannot be checked.
  if (agent !== undefined) return agentIn(agent as Agent, path)
  const canResume = memberOf(file, 'canResume') === true
  // What it yields is checked at run time.
  if (typeof main === 'function') return defineAgent(main as AgentWork, { name: 'module', canResume })
  // A module is an object.
  const named = { default: main, graph: memberOf(file, 'graph'), ...(file as object) }
  const [name, graph] = Object.entries(named).find(([, one]) => isCompiledGraph(one)) ?? []
  if (name !== undefined && ports) {
    const loaded = await loadedGraph({ id: MODULE_GRAPH, description: null, file: path }, name, graph)
    return createGraphsAgent(new GraphSet([loaded], ports.reads), ports)
  }
  throw new AgentFileError(
    `${path} exports no function start(input, sink, signal), no generator function as default, and no compiled graph`
  )
}

/** Id of a graph that is not named by a configuration. */
const MODULE_GRAPH = 'agent'

function agentIn(agent: Agent, path: string): ListedAgent {
  const models = () => (typeof agent.models === 'function' ? checkedModels(agent.models()) : UNNAMED)
  try {
    models()
  } catch (error) {
    throw new AgentFileError(`The agent in ${path} cannot be used: ${sentenceOf(error)}`)
  }
  return contained({
    start: (...given) => agent.start(...given),
    models,
    forget: async (id) => agent.forget?.(id),
    canResume: agent.canResume === true
  })
}

const UNNAMED = checkedModels([{ name: 'module' }])
