// Before `npm start`: builds a checkout. Where there is no compiler, as in an installation for production, what was built is started.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'

function hasCompiler() {
  try {
    createRequire(import.meta.url).resolve('esbuild')
    return true
  } catch {
    return false
  }
}

if (hasCompiler())
  process.exitCode = spawnSync('npm run --silent build:unchecked', { stdio: 'inherit', shell: true }).status ?? 1
