// Loads graphs from files: compiled, not compiled yet, or a factory.
import { existsSync } from 'node:fs'
import { isObject } from '../../base/types.ts'
import { AgentFileError, exportOf, imported, sentenceOf } from '../../agent/agent-file.ts'
import { objectOr, parseJson } from '../../base/json.ts'
import { compiledIn, type GraphFactory, type LoadedGraph } from './graph-set.ts'
import { langGraphOf } from './library.ts'

/** The location of a graph. */
export interface GraphSpec {
  readonly id: string
  readonly description: string | null
  /** Absolute. */
  readonly file: string
}

/** @param name of the export. @throws AgentFileError */
export async function loadGraph(spec: GraphSpec, name: string): Promise<LoadedGraph> {
  if (!existsSync(spec.file)) throw new AgentFileError(`There is no file ${spec.file} for graph ${spec.id}`)
  const exported = exportOf(await imported(spec.file), name)
  if (exported === undefined) throw new AgentFileError(`${spec.file} exports no ${name}, which graph ${spec.id} names`)
  return loadedGraph(spec, name, await exported)
}

/** @param name of the export. @throws AgentFileError if it is not a graph, or its project has no LangGraph */
export async function loadedGraph(spec: GraphSpec, name: string, exported: unknown): Promise<LoadedGraph> {
  // A function is a factory.
  const made = typeof exported === 'function' ? (exported as GraphFactory) : compiledIn(exported)
  if (!made) throw new AgentFileError(`What ${spec.file} exports for graph ${spec.id} is not a graph`)
  try {
    return { ...spec, exportName: name, ...defaultsOf(spec.id), made, library: await langGraphOf(spec.file) }
  } catch (error) {
    throw new AgentFileError(`@langchain/langgraph cannot be loaded from ${spec.file}: ${sentenceOf(error)}`)
  }
}

/** Default config and context of a graph from LANGGRAPH_CONFIG, a JSON object by graph id, as LangGraph's server reads it. */
export function defaultsOf(id: string): Pick<LoadedGraph, 'config' | 'context'> {
  const all = parseJson(process.env.LANGGRAPH_CONFIG ?? '{}')
  if (!isObject(all)) throw new AgentFileError('LANGGRAPH_CONFIG is no JSON object')
  const { context, ...config } = objectOr(all[id])
  return { config, context: objectOr(context) }
}
