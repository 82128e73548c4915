// Runs the operator's TypeScript on every Node with tsx, which also supports enums, `paths`, and imports of `./tools.js` for
// tools.ts, as LangGraph's templates use them. Node itself only strips types, from 22.18 on.
import { existsSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'

let isRegistered = false

/** By the file's extension. */
export function isTypeScript(path: string): boolean {
  return ['.ts', '.mts', '.cts', '.tsx'].includes(extname(path))
}

/** Makes the process import and require TypeScript. False: tsx, which is optional, is not installed. */
export async function runTypeScript(path: string): Promise<boolean> {
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
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
}
