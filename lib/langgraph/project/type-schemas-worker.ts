// Thread that reads the types of a graph with the project's TypeScript and writes them as JSON schemas.
//
// To the source, in memory only, type declarations are appended that name what the graph's builder was given; the checker resolves them.
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import type ts from 'typescript'
import type { JsonObject } from '../../base/types.ts'

/** Schemas of one graph, each null if its type says nothing. */
export interface TypeSchemas {
  readonly state: JsonObject | null
  readonly input: JsonObject | null
  readonly output: JsonObject | null
  readonly config: JsonObject | null
}

/** By node, for a graph within a graph as `outer|inner`; '' is the graph itself. */
export type SchemasByPath = Readonly<Record<string, TypeSchemas>>

/** What the thread is given. */
export interface TypeSchemaRequest {
  /** The project's TypeScript. */
  readonly compiler: string
  /** The graph's file, absolute, and its export. */
  readonly file: string
  readonly name: string
}

// What the main thread passes.
const { compiler, file, name } = workerData as TypeSchemaRequest
const typescript = createRequire(import.meta.url)(compiler) as typeof ts

const DRAFT = 'http://json-schema.org/draft-07/schema#'
const DEPTH_MAX = 8
/** A graph, a builder, a factory of either, or an agent with a graph. */
const HELPERS = `
import type { StateType as __S, UpdateType as __U } from '@langchain/langgraph'
type __Made<T> = T extends (...given: any[]) => infer R ? Awaited<R> : Awaited<T>
type __Compiled<T> = T extends { compile(...given: any[]): infer C } ? C : T extends { graph: infer G } ? G : T
type __Read<T> = __Compiled<__Made<T>> extends infer G
  ? G extends { builder: { _inputDefinition: infer I; _outputDefinition: infer O; _configSchema?: infer C } }
    ? { state: G extends { '~RunOutput': infer S } ? S : __S<any>; input: __U<I & {}>; output: __S<O & {}>; config: __U<Exclude<C, undefined> & {}> }
    : never
  : never
`

interface Subgraph {
  readonly path: string
  /** The variable that holds it. */
  readonly name: string
}

/** Nodes that are graphs: `addNode('node', graph)`, or a function that names one, by the variables at the top of the file. */
function subgraphsOf(source: ts.SourceFile): Subgraph[] {
  const variables = topLevel(source)
  const found: Subgraph[] = []
  const visit = (variable: string, path: readonly string[]): void => {
    for (const { node, names } of nodesOf(variable, variables))
      for (const inner of names.filter((one) => one !== variable && !path.includes(one) && variables.has(one))) {
        found.push({ path: [...path, node].join('|'), name: inner })
        if (path.length < DEPTH_MAX) visit(inner, [...path, node])
      }
  }
  visit(name, [])
  return found
}

interface Variables extends Map<string, ts.Node | null> {
  /** Calls that stand by themselves: `builder.addNode(...)`. */
  readonly statements?: readonly ts.Node[]
}

/** Initialisers by name; null: imported. */
function topLevel(source: ts.SourceFile): Variables {
  const found = new Map<string, ts.Node | null>()
  const statements: ts.Node[] = []
  for (const statement of source.statements) {
    if (typescript.isVariableStatement(statement))
      for (const { name: bound, initializer } of statement.declarationList.declarations)
        if (typescript.isIdentifier(bound) && initializer) found.set(bound.text, initializer)
    if (typescript.isFunctionDeclaration(statement) && statement.name) found.set(statement.name.text, statement)
    if (typescript.isExportAssignment(statement)) found.set('default', statement.expression)
    if (typescript.isExpressionStatement(statement)) statements.push(statement.expression)
    const bindings = typescript.isImportDeclaration(statement) ? statement.importClause?.namedBindings : undefined
    if (bindings && typescript.isNamedImports(bindings))
      for (const one of bindings.elements) found.set(one.name.text, null)
  }
  return Object.assign(found, { statements })
}

interface NodeCall {
  readonly node: string
  /** Identifiers in what the node does. */
  readonly names: readonly string[]
}

/** The `addNode` calls that make a variable's graph: of its initialiser, of the builder it is compiled from, of statements about that. */
function nodesOf(variable: string, variables: Variables): NodeCall[] {
  const initializer = variables.get(variable)
  if (!initializer) return []
  const roots = new Set([variable])
  each(initializer, (one) => {
    if (typescript.isIdentifier(one) && isReceiver(one) && variables.get(one.text)) roots.add(one.text)
  })
  const calls = [...roots].flatMap((root) => addNodeCalls(variables.get(root) ?? initializer))
  const ofBuilder = (variables.statements ?? []).filter((call) => roots.has(rootOf(call)))
  return [...calls, ...ofBuilder.flatMap(addNodeCalls)]
}

function addNodeCalls(within: ts.Node): NodeCall[] {
  const found: NodeCall[] = []
  each(within, (one) => {
    if (!typescript.isCallExpression(one) || !typescript.isPropertyAccessExpression(one.expression)) return
    const [label, action] = one.arguments
    if (one.expression.name.text !== 'addNode' || !label || !action || !typescript.isStringLiteralLike(label)) return
    const names: string[] = []
    each(action, (inner) => {
      if (typescript.isIdentifier(inner)) names.push(inner.text)
    })
    found.push({ node: label.text, names })
  })
  return found
}

const isReceiver = (node: ts.Node): boolean =>
  typescript.isPropertyAccessExpression(node.parent) && node.parent.expression === node

/** The variable at the start of a chain of calls. */
function rootOf(node: ts.Node): string {
  if (typescript.isCallExpression(node) || typescript.isPropertyAccessExpression(node)) return rootOf(node.expression)
  return typescript.isIdentifier(node) ? node.text : ''
}

function each(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  node.forEachChild((child) => each(child, visit))
}

// ------------------------------------------------------------------------------------------------ types to schemas

class Schemas {
  readonly #checker: ts.TypeChecker
  readonly #at: ts.Node

  constructor(checker: ts.TypeChecker, at: ts.Node) {
    this.#checker = checker
    this.#at = at
  }

  /** null: a type that says nothing. */
  root(type: ts.Type): JsonObject | null {
    const schema = this.#object(type, [])
    return schema && { ...schema, $schema: DRAFT }
  }

  #of(type: ts.Type, within: readonly ts.Type[]): JsonObject {
    const { flags } = type
    const { TypeFlags } = typescript
    if (flags & (TypeFlags.Any | TypeFlags.Unknown | TypeFlags.Never) || within.length > DEPTH_MAX) return {}
    if (within.includes(type)) return {}
    if (flags & TypeFlags.Null) return { type: 'null' }
    if (type.isUnion()) return this.#union(type, within)
    if (type.isStringLiteral() || type.isNumberLiteral()) return { type: typeof type.value, const: type.value }
    if (flags & TypeFlags.BooleanLiteral) return { type: 'boolean', const: this.#checker.typeToString(type) === 'true' }
    if (flags & TypeFlags.StringLike) return { type: 'string' }
    if (flags & TypeFlags.NumberLike) return { type: 'number' }
    if (flags & TypeFlags.BooleanLike) return { type: 'boolean' }
    return this.#list(type, within) ?? this.#named(type) ?? this.#object(type, within) ?? {}
  }

  #list(type: ts.Type, within: readonly ts.Type[]): JsonObject | null {
    if (this.#checker.isTupleType(type)) {
      // A tuple's type has its items as arguments.
      const items = this.#checker.getTypeArguments(type as ts.TypeReference)
      const schemas = items.map((item) => this.#of(item, [...within, type]))
      return { type: 'array', items: schemas, minItems: items.length, maxItems: items.length }
    }
    const item = this.#checker.isArrayType(type) ? type.getNumberIndexType() : undefined
    return item ? { type: 'array', items: this.#of(item, [...within, type]) } : null
  }

  #named(type: ts.Type): JsonObject | null {
    if (this.#isMessage(type)) return { $ref: '#/definitions/BaseMessage' }
    return type.symbol?.name === 'Date' ? { type: 'string', format: 'date-time' } : null
  }

  #isMessage(type: ts.Type): boolean {
    if (type.symbol?.name === 'BaseMessage') return true
    return type.isClassOrInterface() || type.symbol
      ? (type.getBaseTypes?.() ?? []).some((base) => this.#isMessage(base))
      : false
  }

  /** What a reducer also takes besides its values (messages in other forms, `Overwrite`) is no part of the schema. */
  #union(type: ts.UnionType, within: readonly ts.Type[]): JsonObject {
    const { Undefined } = typescript.TypeFlags
    const types = type.types.filter((one) => !(one.flags & Undefined) && !one.getProperty('__overwrite__'))
    const items = types.map((one) => (this.#checker.isArrayType(one) ? one.getNumberIndexType() : undefined))
    if (items.some((item) => item && partsOf(item).some((part) => this.#isMessage(part))))
      return { type: 'array', items: { $ref: '#/definitions/BaseMessage' } }
    if (types.some((one) => this.#isMessage(one))) return { $ref: '#/definitions/BaseMessage' }
    return unionOf(types.map((one) => this.#of(one, [...within, type])))
  }

  /** null: not an object. */
  #object(type: ts.Type, within: readonly ts.Type[]): JsonObject | null {
    if (!(type.flags & (typescript.TypeFlags.Object | typescript.TypeFlags.Intersection))) return null
    if (type.getCallSignatures().length > 0) return {}
    const inner = [...within, type]
    const properties: Record<string, JsonObject> = {}
    // As in LangGraph's own server nothing is `required`: who calls a graph may leave out what its reducers have defaults for.
    for (const symbol of type.getProperties().filter((one) => !one.name.startsWith('__@')))
      properties[symbol.name] = this.#of(this.#checker.getTypeOfSymbolAtLocation(symbol, this.#at), inner)
    const index = type.getStringIndexType()
    return { type: 'object', properties, ...(index && { additionalProperties: this.#of(index, inner) }) }
  }
}

const partsOf = (type: ts.Type): readonly ts.Type[] => (type.isUnion() ? type.types : [type])

/** Constants of one type are an `enum`; both booleans are a boolean. */
function unionOf(schemas: readonly JsonObject[]): JsonObject {
  const booleans = schemas.filter(({ type }) => type === 'boolean')
  const rest = booleans.length > 1 ? schemas.filter(({ type }) => type !== 'boolean') : schemas
  const all = booleans.length > 1 ? [...rest, { type: 'boolean' }] : rest
  const types = new Set(all.map(({ type }) => type))
  if (all.length > 1 && types.size === 1 && all.every((one) => one.const !== undefined))
    return { type: all[0]!.type!, enum: all.map((one) => one.const!) }
  return all.length === 1 ? all[0]! : all.length === 0 ? {} : { anyOf: [...all] }
}

// ------------------------------------------------------------------------------------------------------- the program

function optionsFor(path: string): ts.CompilerOptions {
  const { sys } = typescript
  const config = typescript.findConfigFile(dirname(path), sys.fileExists, 'tsconfig.json')
  const { NodeNext } = typescript.ModuleKind
  const fallback = { module: NodeNext, moduleResolution: typescript.ModuleResolutionKind.NodeNext }
  const json: unknown = config && typescript.readConfigFile(config, sys.readFile).config
  const { options } = json
    ? typescript.parseJsonConfigFileContent(json, sys, dirname(config!))
    : { options: { ...fallback, target: typescript.ScriptTarget.ES2022, lib: ['lib.es2023.d.ts'] } }
  // Only types are asked for.
  const ours = { noEmit: true, strict: true, skipLibCheck: true, allowImportingTsExtensions: true, types: [] }
  return { ...options, ...ours, incremental: false, composite: false, declaration: false, noUnusedLocals: false }
}

function typeSchemas(): SchemasByPath {
  const text = typescript.sys.readFile(file) ?? ''
  const source = typescript.createSourceFile(file, text, typescript.ScriptTarget.Latest, true)
  const subgraphs = subgraphsOf(source)
  const self = `typeof import(${JSON.stringify(`./${file.slice(dirname(file).length + 1)}`)})[${JSON.stringify(name)}]`
  const declared = [self, ...subgraphs.map((one) => `typeof ${one.name}`)]
  const appended = declared.map((type, at) => `export type __graph${at} = __Read<${type}>`)
  const options = optionsFor(file)
  const host = typescript.createCompilerHost(options)
  const readSource = host.getSourceFile.bind(host)
  const target = options.target ?? typescript.ScriptTarget.ES2022
  host.getSourceFile = (path, ...rest) =>
    path === file
      ? typescript.createSourceFile(path, [text, HELPERS, ...appended].join('\n'), rest[0] ?? target)
      : readSource(path, ...rest)
  const program = typescript.createProgram([file], options, host)
  const checker = program.getTypeChecker()
  const augmented = program.getSourceFile(file)!
  const schemas = new Schemas(checker, augmented)
  const found: Record<string, TypeSchemas> = {}
  for (const statement of augmented.statements.filter(typescript.isTypeAliasDeclaration)) {
    const at = /^__graph(\d+)$/.exec(statement.name.text)?.[1]
    if (at === undefined) continue
    const type = checker.getTypeAtLocation(statement.name)
    const of = (part: string): JsonObject | null => {
      const symbol = type.getProperty(part)
      return symbol ? schemas.root(checker.getTypeOfSymbolAtLocation(symbol, statement)) : null
    }
    const path = at === '0' ? '' : subgraphs[Number(at) - 1]!.path
    const read = { state: of('state'), input: of('input'), output: of('output'), config: of('config') }
    if (read.state || read.input) found[path] ??= read
  }
  return found
}

parentPort?.postMessage(typeSchemas())
