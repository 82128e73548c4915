// langgraph.json, the file that LangGraph's own command line reads: which graphs there are, and what of the environment they need.
import { existsSync, readFileSync, statSync, watch } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { isObject, type Json, type JsonObject } from '../../types.ts'
import { AgentFileError, sentenceOf } from '../agent-file.ts'
import { parseJson, textOr } from '../json.ts'
import { loadGraph } from './graph-files.ts'
import type { GraphSet, LoadedGraph } from './graph-set.ts'

const NAME = 'langgraph.json'
/** Editors write a file in several steps, in ms. */
const SETTLED_MS = 200

/** @param path of the file, or of its folder; absolute */
export function graphsFile(path: string): string {
  return existsSync(path) && statSync(path).isDirectory() ? join(path, NAME) : path
}

/** Loads all graphs that the file names. @throws AgentFileError for the first that cannot be */
export async function loadGraphs(path: string, version = 0): Promise<LoadedGraph[]> {
  const file = graphsFile(path)
  const config = read(file)
  checkNode(file, config.node_version)
  setEnvironment(file, config.env)
  const graphs: LoadedGraph[] = []
  // One after the other: the first that fails is the one that is named.
  for (const [id, given] of Object.entries(graphsIn(file, config))) {
    const { path: place, description } = isObject(given) ? given : { path: given, description: null }
    const [relative, name] = placeIn(file, id, place)
    const spec = { id, description: textOr(description), file: resolve(dirname(file), relative) }
    graphs.push(await loadGraph(spec, name, version))
  }
  return graphs
}

/** Loads the graphs anew when a file beside them has changed; those that work go on as long as what is new cannot be loaded. */
export function watchGraphs(
  path: string,
  set: GraphSet,
  log: { info(fields: object, text: string): void; error(fields: object, text: string): void }
): () => void {
  let version = 0
  let timer: NodeJS.Timeout | null = null
  const load = async () => {
    try {
      set.replace(await loadGraphs(path, ++version))
      log.info({ graphs: set.all.map(({ id }) => id) }, 'the graphs were loaded anew')
    } catch (error) {
      log.error({ reason: sentenceOf(error) }, 'the graphs cannot be loaded: those from before go on')
    }
  }
  const watcher = watch(dirname(graphsFile(path)), { recursive: true }, (_event, name) => {
    if (name !== null && /(^|\/)(node_modules|\.[^/]+)(\/|$)/.test(name)) return
    if (timer) clearTimeout(timer)
    timer = setTimeout(() => void load(), SETTLED_MS)
  })
  watcher.on('error', (error) => log.error({ err: error }, 'the files of the graphs are not watched any more'))
  return () => {
    if (timer) clearTimeout(timer)
    watcher.close()
  }
}

function read(file: string): JsonObject {
  if (!existsSync(file)) throw new AgentFileError(`There is no ${file}`)
  const config = parseJson(readFileSync(file, 'utf8'))
  if (!isObject(config)) throw new AgentFileError(`${file} is no JSON object`)
  return config
}

function graphsIn(file: string, { graphs }: JsonObject): JsonObject {
  if (!isObject(graphs) || Object.keys(graphs).length === 0) throw new AgentFileError(`${file} names no graphs`)
  return graphs
}

/** `./file.ts:name`; without a name it is the default export. */
function placeIn(file: string, id: string, place: Json | undefined): [path: string, name: string] {
  const text = textOr(place) ?? ''
  const [, path = '', name = 'default'] = /^(.+?)(?::([A-Za-z_$][\w$]*))?$/.exec(text) ?? []
  if (path === '') throw new AgentFileError(`${file} says nowhere where graph ${id} is: it is to be "./file.js:name"`)
  return [path, name]
}

function checkNode(file: string, wanted: Json | undefined): void {
  const major = Number.parseInt(String(wanted ?? ''), 10)
  const own = Number.parseInt(process.versions.node, 10)
  if (major > own) throw new AgentFileError(`${file} asks for Node ${major}, and this is ${process.version}`)
}

/** What is set already stays: whoever starts the process has the last word. */
function setEnvironment(file: string, env: Json | undefined): void {
  const given = typeof env === 'string' ? variablesIn(resolve(dirname(file), env)) : isObject(env) ? env : {}
  for (const [name, value] of Object.entries(given)) process.env[name] ??= String(value)
}

/** A file of variables may be missing: examples name one that everybody makes himself. */
function variablesIn(path: string): NodeJS.Dict<string> {
  return existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {}
}
