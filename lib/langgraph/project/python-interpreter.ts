// Which Python runs a project, and how its process is started.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** The package beside this file, which is copied beside the compiled one. */
const PACKAGE = fileURLToPath(new URL('./python/', import.meta.url))
/** Last in the path: no module of the project is hidden by ours, beside which nothing is written. */
const START =
  'import sys; sys.path.append(sys.argv.pop()); sys.dont_write_bytecode = True; from colloquy_graphs.main import main; main()'
/** uv may have to look for its Python. */
const ASK_MS = 30_000
const ask = promisify(execFile)

/** Arguments of an interpreter that make it the process of a project. */
export const ARGUMENTS: readonly string[] = ['-u', '-c', START, PACKAGE]

/** @param given agent.python: a path, or a command; null: the project's own, else that of the system */
export async function interpreterOf(folder: string, given: string | null): Promise<string> {
  if (given !== null) return /[\\/]/.test(given) && !isAbsolute(given) ? resolve(folder, given) : given
  const { VIRTUAL_ENV } = process.env
  for (const environment of [...(VIRTUAL_ENV ? [VIRTUAL_ENV] : []), join(folder, '.venv')]) {
    const python = join(environment, 'bin', 'python')
    if (existsSync(python)) return python
  }
  if (existsSync(join(folder, 'uv.lock')) && isInPath('uv')) return uvPython(folder)
  return 'python3'
}

async function uvPython(folder: string): Promise<string> {
  const args = ['run', '--no-sync', 'python', '-c', 'import sys; print(sys.executable)']
  try {
    const { stdout } = await ask('uv', args, { cwd: folder, timeout: ASK_MS })
    return stdout.trim()
  } catch {
    return 'python3'
  }
}

function isInPath(name: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, name)))
}
