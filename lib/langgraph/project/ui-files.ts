// UI components of a project (`ui` of langgraph.json), bundled by LangGraph's own tool, which the project has to install.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { graphsFile, type ProjectSettings } from './config-file.ts'

const TOOL = '@langchain/langgraph-ui'
/** Packages that depend on it. */
const BRINGERS = ['@langchain/langgraph-api', '@langchain/langgraph-cli']

/** Content by graph and file name. */
export type UiFiles = ReadonlyMap<string, ReadonlyMap<string, string>>

interface Tool {
  build(options: object): Promise<void>
}

/** @throws Error if the tool is not installed, or a component cannot be bundled */
export async function buildUi(
  path: string,
  { ui, uiShared }: Pick<ProjectSettings, 'ui' | 'uiShared'>
): Promise<UiFiles> {
  const file = graphsFile(path)
  // The interface that LangGraph's own server uses.
  const tool = (await import(pathToFileURL(toolBeside(file)).href)) as Tool
  const output = mkdtempSync(join(tmpdir(), 'colloquy-ui-'))
  try {
    await tool.build({ output, defs: ui, cwd: dirname(file), config: { shared: [...uiShared] } })
    return new Map(Object.keys(ui).map((graph) => [graph, filesIn(join(output, 'public', graph))]))
  } finally {
    rmSync(output, { recursive: true, force: true })
  }
}

function filesIn(folder: string): Map<string, string> {
  return new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}

function toolBeside(file: string): string {
  const require = createRequire(file)
  const found = resolved(require, TOOL)
  if (found !== null) return found
  for (const bringer of BRINGERS) {
    const place = resolved(require, bringer)
    const brought = place && resolved(createRequire(place), TOOL)
    if (brought) return brought
  }
  throw new Error(`${TOOL} is not installed beside ${file}`)
}

function resolved(require: NodeJS.Require, name: string): string | null {
  try {
    return require.resolve(name)
  } catch {
    return null
  }
}
