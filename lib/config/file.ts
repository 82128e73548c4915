// Finds and parses the configuration file, without validating it.
import { readFileSync } from 'node:fs'
import { LineCounter, parseDocument } from 'yaml'
import { absolute } from './environment.ts'
import { ConfigError, refuse } from './problems.ts'

const DEFAULT_FILE = 'colloquy.yaml'

/**
 * @param named the requested file; default: DEFAULT_FILE, if it exists
 * @returns its path and content; a null path and no options when there is no file
 * @throws ConfigError when it cannot be read, or is not YAML
 */
export function readFile(named: string | undefined, cwd: string): { file: string | null; tree: unknown } {
  const file = absolute(cwd, named || DEFAULT_FILE)
  const yaml = readText(file, Boolean(named))
  return yaml === null ? { file: null, tree: {} } : { file, tree: parseYaml(yaml, file) }
}

// A file is optional, but one that was named must exist.
function readText(file: string, mustExist: boolean): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    if (code === 'ENOENT' && !mustExist) return null
    throw new ConfigError([`The configuration file ${file} cannot be read (${code}).`])
  }
}

function parseYaml(yaml: string, file: string): unknown {
  const lines = new LineCounter()
  // Errors quote no lines: the wrong one may contain a key.
  const document = parseDocument(yaml, { lineCounter: lines, prettyErrors: false })
  refuse(
    document.errors.map((error) => `${file}, line ${lines.linePos(error.pos[0]).line}: ${sentenceCase(error.code)}.`)
  )
  try {
    return document.toJS() ?? {}
  } catch {
    throw new ConfigError([`${file}: an alias (*name) has no anchor (&name), or too many.`])
  }
}

function sentenceCase(code: string): string {
  const words = code.toLowerCase().replaceAll('_', ' ')
  return `this is not valid YAML (${words})`
}
