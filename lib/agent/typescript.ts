// TypeScript of the operator's own, on every Node: tsx takes the types away and finds `./tools.js` where tools.ts stands, as authors of
// LangGraph's templates are used to; Node by itself does neither before 22.18, nor enums and `paths` after it.
import { existsSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'

let isRegistered = false

/** True for a file that has to be stripped of its types first. */
export function isTypeScript(path: string): boolean {
  return ['.ts', '.mts', '.cts', '.tsx'].includes(extname(path))
}

/** From here on the process imports and requires TypeScript. False: tsx, which is optional, is not installed. */
export async function runTypeScript(path: string): Promise<boolean> {
  if (isRegistered) return true
  try {
    const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')])
    const tsconfig = tsconfigOf(path)
    try {
      esm.register(tsconfig === null ? {} : { tsconfig })
    } catch {
      // It extends what is not installed, as where a project runs without its development dependencies.
      esm.register({ tsconfig: false })
    }
    cjs.register()
    isRegistered = true
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  return isRegistered
}

/** The nearest one above the file: it says what `@/x` means. */
function tsconfigOf(path: string): string | null {
  const folder = dirname(path)
  const here = join(folder, 'tsconfig.json')
  if (existsSync(here)) return here
  return folder === path ? null : tsconfigOf(folder)
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
}
