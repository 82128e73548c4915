// An agent out of a file of the operator's own [agent.runtime module]: it stands behind the same port as the built-in one. The file
// holds an agent, a function that yields one's answers, or a compiled LangGraph.js graph.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { checkedModels } from './check.ts'
import { contained } from './contained.ts'
import { type AgentWork, defineAgent } from './define.ts'
import { InProcessGraph, isCompiledGraph } from './langgraph/compiled.ts'
import { createGraphAgent } from './langgraph/graph-agent.ts'
import { saverBeside } from './langgraph/pending-checkpoint.ts'
import type { Agent, ListedAgent } from './runtime.ts'

/** A file that holds no agent that could be started. Its text is one sentence that names the file, and the line where there is one. */
export class AgentFileError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'AgentFileError'
  }
}

/** For a file to be loaded, what it awaits at its top included, in ms. */
const LOAD_MS = 60_000

/**
 * Loads the file. It exports `start(input, sink, signal)` and may export `models()` and `forget(threadId)`, by name or on its default
 * export; or a generator function as default; or a compiled graph: as default, as `graph`, or under any name when it is the only one.
 * @param path absolute
 * @throws AgentFileError
 */
export async function loadAgent(path: string, loadMs = LOAD_MS): Promise<ListedAgent> {
  const file = await imported(path, loadMs)
  const main = memberOf(file, 'default')
  const agent = [file, main].find((one) => typeof memberOf(one, 'start') === 'function')
  // Only now that it has a start; what start does with its arguments is the file's own affair.
  if (agent !== undefined) return agentOf(agent as Agent, path)
  // What it yields is checked when it does.
  if (typeof main === 'function') return defineAgent(main as AgentWork, { name: 'module' })
  // A module is an object.
  const graph = [main, memberOf(file, 'graph'), ...Object.values(file as object)].find(isCompiledGraph)
  if (graph !== undefined) return createGraphAgent(new InProcessGraph(graph, saverBeside(path)))
  throw new AgentFileError(
    `${path} exports no function start(input, sink, signal), no generator function as default, and no compiled graph`
  )
}

function agentOf(agent: Agent, path: string): ListedAgent {
  const models = () => (typeof agent.models === 'function' ? checkedModels(agent.models()) : UNNAMED)
  try {
    models()
  } catch (error) {
    throw new AgentFileError(`The agent in ${path} cannot be used: ${sentenceOf(error)}`)
  }
  return contained({ start: (...given) => agent.start(...given), models, forget: async (id) => agent.forget?.(id) })
}

const UNNAMED = checkedModels([{ name: 'module' }])

// -------------------------------------------------------------------------------------------------- what fails

async function imported(path: string, loadMs: number): Promise<unknown> {
  if (!existsSync(path)) throw new AgentFileError(`There is no agent file ${path}`)
  const isOver = new AbortController()
  const late = sleep(loadMs, undefined, { signal: isOver.signal }).then(() => {
    throw new AgentFileError(
      `The agent in ${path} was not loaded within ${loadMs / 1000} seconds: what it awaits does not come`
    )
  })
  late.catch(() => {})
  try {
    return await Promise.race([import(pathToFileURL(path).href), late])
  } catch (error) {
    throw error instanceof AgentFileError ? error : await fileError(path, error)
  } finally {
    isOver.abort()
  }
}

async function fileError(path: string, error: unknown): Promise<AgentFileError> {
  if (codeOf(error) === 'ERR_UNKNOWN_FILE_EXTENSION' && ['.ts', '.mts'].includes(extname(path))) {
    const text = `${path} is TypeScript, which Node ${process.version} does not run`
    return new AgentFileError(`${text}: use Node 22.18 or later, or compile it to JavaScript`)
  }
  const line = lineIn(error, path) ?? (error instanceof SyntaxError ? await syntaxLine(path) : null)
  const place = line === null ? path : `${path}:${line}`
  return new AgentFileError(`The agent in ${place} cannot be loaded: ${sentenceOf(error)}`)
}

/** The line of the file that an error comes from; null: its stack does not say. */
function lineIn(error: unknown, path: string): string | null {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  for (const name of [pathToFileURL(path).href, path]) {
    const at = stack.indexOf(`${name}:`)
    const line = at < 0 ? undefined : /^\d+/.exec(stack.slice(at + name.length + 1))?.[0]
    if (line !== undefined) return line
  }
  return null
}

/** Node says nowhere in the error itself where a module's syntax is wrong; its own check of the file does. */
function syntaxLine(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['--check', path], { timeout: 30_000 }, (_error, _out, said) =>
      resolve(said.startsWith(`${path}:`) ? (/^\d+/.exec(said.slice(path.length + 1))?.[0] ?? null) : null)
    )
  })
}

function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return `it throws ${JSON.stringify(error) ?? String(error)}`
  const [line = ''] = error.message.split('\n')
  return error.name === 'Error' || error.name === 'AgentFileError' ? line : `${error.name}: ${line}`
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : null
}

function memberOf(value: unknown, name: string): unknown {
  // Any object can be asked for any member.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}
