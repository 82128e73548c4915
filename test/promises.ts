// Nobody's promise: each one in lib/ and bin/ is awaited, given to somebody who awaits it, or has a handler for its rejection. One without
// ends the process, with everybody's runs in it. `void` is no handler, and neither is a callback whose caller ignores what it returns.
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'

/** The sources lie beside the build this file was compiled into. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const EXAMPLES = join(ROOT, 'lib', 'examples-of-promises.ts')

/** A source of its own, to see that each way to lose a promise is found. Each line that ends with `// found` has one. */
const EXAMPLE_TEXT = `
declare const work: () => Promise<number>
declare const maybe: Promise<void> | undefined
declare const emitter: { on(name: string, listener: (value: number) => void): void }
declare const timer: (callback: () => void) => void
declare const log: (error: unknown) => void
export function lost(object: { close?(): Promise<void> } | null) {
  work() // found
  void work() // found
  void maybe // found
  void object?.close?.() // found
  work().then(() => {}) // found
  void work().finally(() => {}) // found
  work().catch(undefined) // found
  timer(() => work()) // found
  timer(work) // found
  timer(async () => { await work() }) // found
  emitter.on('a', async (value) => { await work(); log(value) }) // found
  return void work() // found
}
export const arrow = () => void work() // found
export const either = (is: boolean) => { if (is) is && work() } // found
export const choice = (is: boolean) => { is ? work() : log(1) } // found
export async function kept() {
  work().catch(log)
  work().then(() => {}, log)
  work().catch(log).finally(() => work())
  timer(() => { work().catch(log) })
  timer(() => work().catch(log))
  const one = work()
  await Promise.all([one, work()])
  await work()
  void log(1)
}
export const given = () => work()
`

function programOf(): ts.Program {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT)
  const ours = fileNames.filter((file) => /^(lib|bin)\//.test(relative(ROOT, file)))
  const host = ts.createCompilerHost({ ...options, incremental: false, noEmit: true })
  const { getSourceFile, fileExists } = host
  host.fileExists = (name) => name === EXAMPLES || fileExists.call(host, name)
  host.getSourceFile = (name, language, ...rest) =>
    name === EXAMPLES
      ? ts.createSourceFile(name, EXAMPLE_TEXT, language)
      : getSourceFile.call(host, name, language, ...rest)
  return ts.createProgram([...ours, EXAMPLES], { ...options, incremental: false, noEmit: true }, host)
}

const program = programOf()
const checker = program.getTypeChecker()

function isPromise(type: ts.Type): boolean {
  if (type.isUnion()) return type.types.some(isPromise)
  return (type.flags & ts.TypeFlags.Object) !== 0 && checker.getPropertyOfType(type, 'then') !== undefined
}

function isFunction(node: ts.Node | undefined): boolean {
  return node !== undefined && checker.getTypeAtLocation(node).getCallSignatures().length > 0
}

/** `.catch(f)`, `.then(f, g)`, and `.finally()` behind one of them. */
function isHandled(node: ts.Expression): boolean {
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return false
  const { name, expression } = node.expression
  if (name.text === 'catch') return isFunction(node.arguments[0])
  if (name.text === 'then') return isFunction(node.arguments[1])
  return name.text === 'finally' && isHandled(expression)
}

/** Whether a promise that `node` is would have nobody. */
function isLost(node: ts.Expression): boolean {
  if (ts.isParenthesizedExpression(node) || ts.isVoidExpression(node)) return isLost(node.expression)
  if (ts.isAwaitExpression(node)) return false
  if (ts.isConditionalExpression(node)) return isLost(node.whenTrue) || isLost(node.whenFalse)
  if (ts.isBinaryExpression(node)) {
    const kind = node.operatorToken.kind
    const isAssignment = kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment
    return !isAssignment && isLost(node.right)
  }
  return isPromise(checker.getTypeAtLocation(node)) && !isHandled(node)
}

/** Whether every way to call a parameter of this type ignores what it returns. */
function ignoresResult(type: ts.Type | undefined): boolean {
  const signatures = type ? checker.getNonNullableType(type).getCallSignatures() : []
  return (
    signatures.length > 0 &&
    signatures.every((signature) => (signature.getReturnType().flags & ts.TypeFlags.Void) !== 0)
  )
}

function returnsLost(argument: ts.Expression): boolean {
  if (ts.isArrowFunction(argument) && !ts.isBlock(argument.body)) {
    const isAsync = argument.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.AsyncKeyword) ?? false
    if (!isAsync) return isLost(argument.body)
  }
  return checker
    .getTypeAtLocation(argument)
    .getCallSignatures()
    .some((signature) => isPromise(signature.getReturnType()))
}

function lostIn(source: ts.SourceFile): string[] {
  const lines: number[] = []
  const found = (node: ts.Node) => lines.push(source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1)
  const visit = (node: ts.Node): void => {
    if (ts.isExpressionStatement(node) && isLost(node.expression)) found(node)
    else if (ts.isVoidExpression(node) && !ts.isExpressionStatement(node.parent) && isLost(node.expression)) found(node)
    // `finally` waits for what its callback returns.
    const isFinally = ts.isCallExpression(node) && node.expression.getLastToken(source)?.getText(source) === 'finally'
    if (!isFinally && (ts.isCallExpression(node) || ts.isNewExpression(node))) {
      for (const argument of node.arguments ?? [])
        if (ignoresResult(checker.getContextualType(argument)) && returnsLost(argument)) found(argument)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  const text = source.text.split('\n')
  return [...new Set(lines)].map((line) => `${relative(ROOT, source.fileName)}:${line} ${text[line - 1]!.trim()}`)
}

t.test('each way to lose a promise is found, and nothing else', async (t) => {
  const source = program.getSourceFile(EXAMPLES)!
  const all = EXAMPLE_TEXT.split('\n').flatMap((line, i) => (line.endsWith('// found') ? [i + 1] : []))
  t.strictSame(
    lostIn(source).map((line) => Number(/:(\d+) /.exec(line)![1])),
    all
  )
})

t.test('no promise of lib/ and bin/ is without a handler', async (t) => {
  const sources = program.getSourceFiles().filter(({ fileName }) => /^(lib|bin)\//.test(relative(ROOT, fileName)))
  t.ok(sources.length > 300)
  t.strictSame(sources.filter(({ fileName }) => fileName !== EXAMPLES).flatMap(lostIn), [])
})
