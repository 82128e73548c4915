// A client that is generated from the description of the API compiles, strictly, and walks through the first minutes.
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import openapiTS, { astToString } from 'openapi-typescript'
import t from 'tap'
import ts from 'typescript'
import { openSite } from '../fixtures/gateway.ts'
import { document } from '../fixtures/openapi.ts'

/** This file is compiled to dist/test/client. */
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ['lib.es2023.d.ts'],
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  rewriteRelativeImportExtensions: true,
  skipLibCheck: false
}

t.test('types generated from the description compile, and a client of them does the walk-through', async (t) => {
  // Beside node_modules, where its types are found.
  const folder = mkdtempSync(join(ROOT, 'dist', 'generated-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const made = await openapiTS(JSON.stringify(document), { defaultNonNullable: false })
  writeFileSync(join(folder, 'api.ts'), astToString(made))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  copyFileSync(join(ROOT, 'test/client/generated/walk.ts'), join(folder, 'walk.ts'))
  const program = ts.createProgram([join(folder, 'walk.ts')], { ...OPTIONS, outDir: folder, rootDir: folder })
  program.emit()
  const problems = ts.getPreEmitDiagnostics(program).map(({ messageText, file, start }) => {
    const line = file && start !== undefined ? file.getLineAndCharacterOfPosition(start).line + 1 : 0
    return `${file?.fileName}:${line} ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
  t.same(problems, [])
  const { walk } = (await import(pathToFileURL(join(folder, 'walk.js')).href)) as {
    walk(url: string, words: string): Promise<string>
  }
  const { url } = await openSite(t)
  t.equal(await walk(url, '/demo deltas=3 rate=0'), 'w0000 w0001 w0002 ')
})
