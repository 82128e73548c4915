// Reads langgraph.json, the configuration of LangGraph's CLI: graphs, environment, and server settings of a project.
import { existsSync, readFileSync, statSync, watch } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import { AgentFileError, exportOf, imported, memberOf, sentenceOf } from '../../agent/agent-file.ts'
import { objectOr, parseJson, textOr, textsIn } from '../../base/json.ts'
import { type GraphSpec, loadGraph } from './graph-files.ts'
import type { LoadedGraph } from './graph-set.ts'
import type { PythonPlace, PythonProjectSpec } from './python-process.ts'

const NAME = 'langgraph.json'
/** Debounce in ms: editors write a file in several steps. */
const SETTLED_MS = 200

/** @param path of the file, or of its folder; absolute */
export function graphsFile(path: string): string {
  return existsSync(path) && statSync(path).isDirectory() ? join(path, NAME) : path
}

/** Server settings of the file. */
export interface ProjectSettings {
  /** Its Auth object, as `./file.ts:name`; null: none. */
  readonly auth: string | null
  readonly http: {
    /** The project's own HTTP app; null: none. */
    readonly app: string | null
    /** Its routes require a sign-in. */
    readonly appNeedsUser: boolean
    /** Parts of the routes that are not served: threads, runs... */
    readonly disabled: readonly string[]
    readonly origins: readonly string[]
    /** Patterns of request headers that graphs find in their configuration; both empty: it says nothing. */
    readonly headers: { readonly include: readonly string[]; readonly exclude: readonly string[] }
  }
  /** Files with UI components, by graph. */
  readonly ui: Readonly<Record<string, string>>
  /** Modules they share with the page. */
  readonly uiShared: readonly string[]
  /** Default TTL of store items in minutes; null: none. */
  readonly itemTtl: number | null
  /** Unsupported settings, one sentence each. */
  readonly unsupported: readonly string[]
}

/** @throws AgentFileError */
export function projectSettings(path: string): ProjectSettings {
  const file = graphsFile(path)
  const config = read(file)
  const [auth, http, store] = [objectOr(config.auth), objectOr(config.http), objectOr(config.store)]
  const [ttl, cors] = [objectOr(store.ttl), objectOr(http.cors)]
  const app = textOr(http.app)
  const parts: readonly (readonly [part: string, segments: readonly string[]])[] = [
    ['assistants', ['assistants']],
    ['threads', ['threads']],
    ['runs', ['runs']],
    ['store', ['store']],
    ['meta', ['ok', 'info']],
    ['mcp', ['mcp-protocol']],
    ['a2a', ['a2a']],
    ['ui', ['ui']]
  ]
  return {
    auth: textOr(auth.path),
    http: {
      app,
      appNeedsUser: http.enable_custom_route_auth !== false,
      disabled: parts.flatMap(([part, segments]) => (http[`disable_${part}`] === true ? segments : [])),
      origins: textsIn(cors.allow_origins),
      headers: headersIn(file, http.configurable_headers ?? {})
    },
    ui: Object.fromEntries(
      Object.entries(objectOr(config.ui)).filter((one): one is [string, string] => typeof one[1] === 'string')
    ),
    uiShared: textsIn(objectOr(config.ui_config).shared),
    itemTtl: typeof ttl.default_ttl === 'number' && ttl.default_ttl > 0 ? ttl.default_ttl : null,
    unsupported: [
      ...(isObject(store.index) ? ['store.index: items are searched by their values, not by their meaning'] : []),
      ...(ttl.default_ttl !== undefined && ttl.refresh_on_read !== false
        ? ['store.ttl.refresh_on_read: an item is kept so long from when it was written last']
        : []),
      ...(textOr(http.mount_prefix) === null ? [] : ['http.mount_prefix: a proxy puts one before all paths']),
      ...(http.disable_webhooks === true ? ['http.disable_webhooks: webhooks of runs are called'] : []),
      ...(cors.allow_origin_regex === undefined ? [] : ['http.cors.allow_origin_regex: name the origins']),
      ...(isObject(config.checkpointer) ? ['checkpointer: states are kept in the database'] : []),
      ...(textOr(store.path) === null ? [] : ['store.path: items are kept in the database'])
    ]
  }
}

/**
 * Both spellings of the lists are documented. What is wrong is refused: read as no list, it would tell what was to be kept back.
 * @throws AgentFileError
 */
function headersIn(file: string, given: Json): ProjectSettings['http']['headers'] {
  const { includes, include = includes ?? [], excludes, exclude = excludes ?? [] } = objectOr(given)
  const areTexts = (list: Json): list is string[] => Array.isArray(list) && list.every((one) => typeof one === 'string')
  if (!isObject(given) || !areTexts(include) || !areTexts(exclude))
    throw new AgentFileError(`${file}: http.configurable_headers is to be {"include": ["x-..."], "exclude": ["..."]}`)
  return { include, exclude }
}

/**
 * The export of a project's file that langgraph.json names.
 * @throws AgentFileError
 */
export async function projectExport(path: string, place: string, what: string): Promise<unknown> {
  const file = graphsFile(path)
  const [relative, name] = placeIn(file, what, place)
  const source = resolve(dirname(file), relative)
  const exported = exportOf(await imported(source), name)
  if (exported === undefined) throw new AgentFileError(`${source} exports no ${name}, which ${what} names`)
  return exported
}

/** The app of `http.app`: an object with `fetch`, such as a Hono app, or a function. @throws AgentFileError */
export async function loadApp(path: string, place: string): Promise<{ fetch: (request: Request) => Response }> {
  const app = await projectExport(path, place, 'http.app')
  // Results are checked when used.
  if (typeof app === 'function' && !('fetch' in app)) return { fetch: app as (request: Request) => Response }
  if (typeof memberOf(app, 'fetch') === 'function') return app as { fetch: (request: Request) => Response }
  throw new AgentFileError(`${place} exports no app for http.app: it must be a function or have a method fetch`)
}

interface NamedGraph {
  readonly id: string
  readonly description: string | null
  /** As it is written: of a Python graph, a module may stand for its file. */
  readonly place: string
  readonly name: string
  readonly isPython: boolean
}

/** All graphs that the file names, in its order. @throws AgentFileError */
export function namedGraphs(path: string): NamedGraph[] {
  const file = graphsFile(path)
  const graphs = graphsIn(file, read(file))
  const written = graphNames(readFileSync(file, 'utf8'))
  const twice = written.find((id, at) => written.indexOf(id) !== at)
  if (twice !== undefined) throw new AgentFileError(`${file} names graph ${twice} twice: give each a name of its own`)
  return Object.entries(graphs).map(([id, given]) => {
    const { path: written, description } = isObject(given) ? given : { path: given, description: null }
    const [place, name] = placeIn(file, `graph ${id}`, written)
    const isPython = isPythonPlace(place)
    if (isPython && name === 'default')
      throw new AgentFileError(`${file} does not say what graph ${id} is called in ${place}: write "${place}:name"`)
    return { id, description: textOr(description), place, name, isPython }
  })
}

/** The JavaScript graphs of the file. Also sets the environment variables of the file. @throws AgentFileError */
export function graphSpecs(path: string): (GraphSpec & { readonly name: string })[] {
  const file = graphsFile(path)
  const config = read(file)
  setEnvironment(file, config.env)
  const graphs = namedGraphs(path).filter(({ isPython }) => !isPython)
  if (graphs.length > 0) checkNode(file, config.node_version)
  return graphs.map(({ id, description, place, name }) => ({
    ...{ id, description, name },
    file: resolve(dirname(file), place)
  }))
}

/** The Python graphs of the file; null: it has none. Also sets the environment variables of the file. @throws AgentFileError */
export function pythonProject(path: string): PythonProjectSpec | null {
  const file = graphsFile(path)
  const config = read(file)
  const graphs = namedGraphs(path).filter(({ isPython }) => isPython)
  if (graphs.length === 0) return null
  setEnvironment(file, config.env)
  const folder = dirname(file)
  return { folder, name: projectName(folder), dependencies: textsIn(config.dependencies), graphs }
}

/** What of the file lies in front of the routes and is Python; null: nothing. @throws AgentFileError */
export function pythonFront(path: string, { auth, http }: ProjectSettings): PythonProjectSpec | null {
  const file = graphsFile(path)
  const placed = (what: string, written: string | null): PythonPlace | null => {
    if (written === null) return null
    const [place, name] = placeIn(file, what, written)
    if (!isPythonPlace(place)) return null
    if (name === 'default')
      throw new AgentFileError(`${file} does not say what ${what} is called in ${place}: write "${place}:name"`)
    return { place, name }
  }
  const found = { auth: placed('auth.path', auth), app: placed('http.app', http.app) }
  if (!found.auth && !found.app) return null
  const config = read(file)
  setEnvironment(file, config.env)
  const folder = dirname(file)
  return { folder, name: projectName(folder), dependencies: textsIn(config.dependencies), graphs: [], ...found }
}

/** As its own packaging calls it, wherever it lies; else its folder's. */
function projectName(folder: string): string {
  const packaging = join(folder, 'pyproject.toml')
  const text = existsSync(packaging) ? readFileSync(packaging, 'utf8') : ''
  const [, section = ''] = /^\[project\]$(.*?)(?=^\[|$(?![\s\S]))/ms.exec(text) ?? []
  return /^name\s*=\s*["']([^"']+)["']/m.exec(section)?.[1] ?? basename(folder)
}

/** A file of Python, or a module, which has no slash and no ending of JavaScript. */
function isPythonPlace(place: string): boolean {
  return place.endsWith('.py') || (!place.includes('/') && !/\.[cm]?[jt]sx?$/.test(place))
}

/** Loads all graphs, or only those in one file. @throws AgentFileError for the first that fails */
export async function loadGraphs(path: string, only: string | null = null): Promise<LoadedGraph[]> {
  const graphs: LoadedGraph[] = []
  // One after the other, so that the error names the first that fails.
  for (const { name, ...spec } of graphSpecs(path))
    if (only === null || spec.file === only) graphs.push(await loadGraph(spec, name))
  return graphs
}

/** Calls `reload` when a file of the project changes; if that fails, the old graphs stay in use. */
export function watchGraphs(
  path: string,
  reload: () => Promise<readonly string[]>,
  log: { info(fields: object, text: string): void; error(fields: object, text: string): void }
): () => void {
  let timer: NodeJS.Timeout | null = null
  let loading = Promise.resolve()
  const load = async () => {
    try {
      log.info({ graphs: await reload() }, 'the graphs were reloaded')
    } catch (error) {
      log.error({ reason: sentenceOf(error) }, 'the graphs cannot be reloaded: the previous ones stay in use')
    }
  }
  const watcher = watch(dirname(graphsFile(path)), { recursive: true }, (_event, name) => {
    if (name !== null && /(^|\/)(node_modules|\.git|\.venv|__pycache__)(\/|$)/.test(name)) return
    if (timer) clearTimeout(timer)
    timer = setTimeout(() => {
      // One after the other, so that the last change wins.
      loading = loading.then(load)
    }, SETTLED_MS)
  })
  watcher.on('error', (error) => log.error({ err: error }, 'the files of the graphs are no longer watched'))
  return () => {
    if (timer) clearTimeout(timer)
    watcher.close()
  }
}

function read(file: string): JsonObject {
  if (!existsSync(file)) throw new AgentFileError(`There is no ${file}`)
  const config = parseJson(readFileSync(file, 'utf8'))
  if (!isObject(config)) throw new AgentFileError(`${file} is not a JSON object`)
  return config
}

function graphsIn(file: string, { graphs }: JsonObject): JsonObject {
  if (!isObject(graphs) || Object.keys(graphs).length === 0) throw new AgentFileError(`${file} names no graphs`)
  return graphs
}

/** The names of the graphs as they are written: of two that are the same, an object keeps the last. */
function graphNames(text: string): string[] {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]/g) ?? []
  const names: string[] = []
  let [depth, section] = [0, '']
  for (const [at, token] of tokens.entries()) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    if (tokens[at + 1] !== ':') continue
    const key = String(parseJson(token))
    if (depth === 1) section = key
    else if (depth === 2 && section === 'graphs') names.push(key)
  }
  return names
}

/** `./file.ts:name`; without a name it is the default export. */
function placeIn(file: string, what: string, place: Json | undefined): [path: string, name: string] {
  const text = textOr(place) ?? ''
  const [, path = '', name = 'default'] = /^(.+?)(?::([A-Za-z_$][\w$]*))?$/.exec(text) ?? []
  if (path === '') throw new AgentFileError(`${file} does not say where ${what} is: write "./file.js:name"`)
  return [path, name]
}

function checkNode(file: string, wanted: Json | undefined): void {
  const major = Number.parseInt(String(wanted ?? ''), 10)
  const own = Number.parseInt(process.versions.node, 10)
  if (major > own) throw new AgentFileError(`${file} asks for Node ${major}, but this is ${process.version}`)
}

/** Variables that a file has set, as it has set them. */
const SET = new Map<string, string>()

/** Existing variables win over those of the file, which may say something else when it is read again. */
function setEnvironment(file: string, env: Json | undefined): void {
  const given = typeof env === 'string' ? variablesIn(resolve(dirname(file), env)) : isObject(env) ? env : {}
  for (const [name, value] of SET)
    if (process.env[name] === value && given[name] === undefined) delete process.env[name]
  for (const [name, value] of Object.entries(given)) {
    if (process.env[name] !== undefined && process.env[name] !== SET.get(name)) continue
    process.env[name] = String(value)
    SET.set(name, String(value))
  }
}

/** The env file may be missing, as in LangGraph's examples. */
function variablesIn(path: string): NodeJS.Dict<string> {
  return existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {}
}
