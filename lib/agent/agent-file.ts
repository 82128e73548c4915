// Loads the operator's own files (an agent or a graph) into this process. A problem is one sentence that names the
// file, and the line if known.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { dirname, extname, join } from 'node:path'
import { codeOf } from '../base/errors.ts'
import { withTimeout } from '../base/waiting.ts'

// ----------------------------------------------------------------------------------------------------
// Runs the operator's TypeScript on every Node with tsx, which also supports enums, `paths`, and imports of `./tools.js` for tools.ts, as
// LangGraph's templates use them. Node itself only strips types, from 22.18 on.

let isRegistered = false

/** By the file's extension. */
export function isTypeScript(path: string): boolean {
  return ['.ts', '.mts', '.cts', '.tsx'].includes(extname(path))
}

/** Makes the process import and require TypeScript. False: tsx, which is optional, is not installed. */
async function runTypeScript(path: string): Promise<boolean> {
  if (isRegistered) return true
  try {
    const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')])
    const tsconfig = tsconfigOf(path)
    try {
      esm.register(tsconfig === null ? {} : { tsconfig })
    } catch {
      // The tsconfig extends a package that is not installed, for example a development dependency.
      esm.register({ tsconfig: false })
    }
    cjs.register()
    isRegistered = true
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  return isRegistered
}

/** The nearest tsconfig.json above the file, for its `paths`. */
function tsconfigOf(path: string): string | null {
  const folder = dirname(path)
  const here = join(folder, 'tsconfig.json')
  if (existsSync(here)) return here
  return folder === path ? null : tsconfigOf(folder)
}

function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ERR_MODULE_NOT_FOUND'
}

/** The file cannot be used as an agent. The message is one sentence that names the file, and the line if known. */
export class AgentFileError extends Error {
  override readonly name = 'AgentFileError'
}

/** Timeout for loading a file, including its top-level awaits, in ms. */
export const LOAD_MS = 60_000

/** The file's exports. @throws AgentFileError */
export async function imported(path: string, loadMs = LOAD_MS): Promise<unknown> {
  if (!existsSync(path)) throw new AgentFileError(`There is no agent file ${path}`)
  if (isTypeScript(path)) await runTypeScript(path)
  const late = () =>
    new AgentFileError(
      `The agent in ${path} was not loaded within ${loadMs / 1000} seconds: a top-level await never resolved`
    )
  try {
    return await withTimeout(import(pathToFileURL(path).href), loadMs, late)
  } catch (error) {
    throw error instanceof AgentFileError ? error : await fileError(path, error)
  }
}

async function fileError(path: string, error: unknown): Promise<AgentFileError> {
  if (codeOf(error) === 'ERR_UNKNOWN_FILE_EXTENSION' && isTypeScript(path)) {
    const text = `${path} is TypeScript, which Node ${process.version} does not run`
    return new AgentFileError(`${text}: npm i tsx, use Node 22.18 or later, or compile it to JavaScript`)
  }
  const line = lineIn(error, path) ?? (error instanceof SyntaxError ? await syntaxLine(path) : null)
  const place = line === null ? path : `${path}:${line}`
  return new AgentFileError(`The agent in ${place} cannot be loaded: ${sentenceOf(error)}`)
}

/** The line in the file an error comes from; null: its stack does not say. */
function lineIn(error: unknown, path: string): string | null {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  for (const name of [pathToFileURL(path).href, path]) {
    const at = stack.indexOf(`${name}:`)
    const line = at < 0 ? undefined : /^\d+/.exec(stack.slice(at + name.length + 1))?.[0]
    if (line !== undefined) return line
  }
  return null
}

/** Node's error does not say where a module's syntax is wrong; `node --check` does. */
function syntaxLine(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['--check', path], { timeout: 30_000 }, (_error, _out, said) =>
      resolve(said.startsWith(`${path}:`) ? (/^\d+/.exec(said.slice(path.length + 1))?.[0] ?? null) : null)
    )
  })
}

export function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return `it throws ${JSON.stringify(error) ?? String(error)}`
  const [line = ''] = error.message.split('\n')
  return error.name === 'Error' || error.name === 'AgentFileError' ? line : `${error.name}: ${line}`
}

/** An export by name. If the file counts as CommonJS (TypeScript without `"type": "module"`), all exports are members of the default one. */
export function exportOf(file: unknown, name: string): unknown {
  const main = memberOf(file, 'default')
  const inner = memberOf(main, name)
  if (name === 'default') return memberOf(main, '__esModule') === true ? inner : main
  return memberOf(file, name) ?? inner
}

export function memberOf(value: unknown, name: string): unknown {
  // Any member of any object may be read.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}
