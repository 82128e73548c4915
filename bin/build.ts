#!/usr/bin/env node
// The build, behind the compiler: the page, the migrations, and the commit that all of it was built from.
import { spawnSync } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** This file is compiled to dist/bin. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

// The page takes most of the time: whoever knows that it is built leaves it out.
if (!process.argv.includes('--without-page')) await import('./build-page.ts')

const PYTHON = 'lib/langgraph/project/python'

for (const dialect of ['sqlite', 'postgres']) {
  const folder = `lib/store/${dialect}/migrations`
  cpSync(join(ROOT, folder), join(ROOT, 'dist', folder), { recursive: true })
}

// What Python has compiled beside its sources stays there.
cpSync(join(ROOT, PYTHON), join(ROOT, 'dist', PYTHON), {
  recursive: true,
  filter: (path) => !path.includes('__pycache__')
})

/** null: this is no checkout, or there is no git. */
function git(...args: readonly string[]): string | null {
  const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : null
}

// An image is built without .git: it names its commit.
const commit = process.env.COLLOQUY_COMMIT ?? git('rev-parse', '--short=12', 'HEAD')
if (commit !== null) {
  const isDirty = !process.env.COLLOQUY_COMMIT && git('status', '--porcelain', '--untracked-files=no')
  writeFileSync(join(ROOT, 'dist/commit'), `${commit}${isDirty ? '-dirty' : ''}\n`)
}
