// JSON schemas of graphs whose state is only a type (`Annotation`): read from the project's source by its own TypeScript, as LangGraph's
// server does. In a thread of its own: checking a project takes seconds.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { isTypeScript } from '../typescript.ts'
import type { SchemasByPath, TypeSchemaRequest } from './type-schemas-worker.ts'
import { warnUnexpected } from '../../unexpected.ts'

/** As LangGraph's server waits. */
const TIMEOUT_MS = 30_000
/** A project of many types takes a few hundred megabytes. */
const HEAP_MB = 1024
const NOTHING: SchemasByPath = {}

/** Read once for each graph; empty where there is nothing to read it with, or from. */
export class TypeSchemaReader {
  readonly #read = new Map<string, Promise<SchemasByPath>>()

  of(file: string, name: string): Promise<SchemasByPath> {
    const key = `${file}:${name}`
    const known = this.#read.get(key) ?? read(file, name)
    this.#read.set(key, known)
    return known
  }
}

async function read(file: string, name: string): Promise<SchemasByPath> {
  const compiler = compilerBeside(file)
  if (!isTypeScript(file) || compiler === null) return NOTHING
  const script = import.meta.url.endsWith('.ts') ? './type-schemas-worker.ts' : './type-schemas-worker.js'
  const workerData: TypeSchemaRequest = { compiler, file, name }
  const worker = new Worker(new URL(script, import.meta.url), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB }
  })
  const timer = setTimeout(() => worker.terminate().catch(warnUnexpected), TIMEOUT_MS)
  try {
    return await new Promise<SchemasByPath>((resolve) => {
      worker.once('message', resolve)
      // A project that does not compile has graphs without schemas, as before.
      worker.once('error', () => resolve(NOTHING))
      worker.once('exit', () => resolve(NOTHING))
    })
  } finally {
    clearTimeout(timer)
  }
}

/** The project's own TypeScript, that of LangGraph's server, or one beside us. */
function compilerBeside(file: string): string | null {
  const beside = createRequire(file)
  const requires = [beside, through(beside, '@langchain/langgraph-api'), createRequire(import.meta.url)]
  for (const require of requires) {
    const path = require && resolved(require, 'typescript')
    if (path && existsSync(path)) return path
  }
  return null
}

function through(require: NodeJS.Require, name: string): NodeJS.Require | null {
  const path = resolved(require, name)
  return path === null ? null : createRequire(path)
}

function resolved(require: NodeJS.Require, name: string): string | null {
  try {
    return require.resolve(name)
  } catch {
    return null
  }
}
