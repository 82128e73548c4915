// `npm run release` in a small project of its own: npm's own commands are real, what they would install and test is not there.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { homeOf } from '../fixtures/gateway.ts'

const SCRIPT = fileURLToPath(new URL('../../../.ci/release', import.meta.url))
const NPM = execFileSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).trim()

/** A checkout that has one commit. */
function projectOf(t: Test) {
  const [folder, tools] = [homeOf(t), homeOf(t)]
  writeFileSync(join(tools, 'npm'), `#!/bin/sh\ncase $1 in ci|test) exit \${FAILS:-0};; esac\nexec ${NPM} "$@"\n`)
  chmodSync(join(tools, 'npm'), 0o755)
  mkdirSync(join(folder, '.ci'))
  cpSync(SCRIPT, join(folder, '.ci', 'release'))
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'one', version: '0.1.0', files: ['CHANGELOG.md'] })
  )
  writeFileSync(join(folder, 'CHANGELOG.md'), '# Changelog\n\n## 0.2.0, unreleased\n\n- A thing.\n\n## 0.1.0\n')
  writeFileSync(join(folder, '.gitignore'), '*.tgz\n')
  const names = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' }
  const env = { ...process.env, ...names, PATH: `${tools}${delimiter}${process.env.PATH}` }
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, env, encoding: 'utf8' }).trim()
  git('init', '--quiet')
  git('add', '.')
  git('commit', '--quiet', '--message', 'Begin')
  const release = (version: string, more = {}) => {
    const { status, stdout, stderr } = spawnSync('bash', ['.ci/release', version], {
      ...{ cwd: folder, encoding: 'utf8' as const },
      env: { ...env, ...more }
    })
    return { status, said: stdout + stderr }
  }
  return { folder, git, release }
}

t.test('a release is checked, dated, packed, committed and tagged, once', async (t) => {
  const { folder, git, release } = projectOf(t)
  const made = release('0.2.0')
  t.equal(made.status, 0, made.said)
  t.match(made.said, /v0\.2\.0 is committed, tagged and packed: one-0\.2\.0\.tgz/)
  t.ok(existsSync(join(folder, 'one-0.2.0.tgz')))
  t.match(readFileSync(join(folder, 'package.json'), 'utf8'), /"version": ?"0\.2\.0"/)
  t.match(readFileSync(join(folder, 'CHANGELOG.md'), 'utf8'), /^## 0\.2\.0, 20\d\d-\d\d-\d\d$/m)
  t.strictSame([git('log', '-1', '--format=%s'), git('status', '--porcelain')], ['Release 0.2.0', ''])
  t.equal(git('rev-list', '-1', 'v0.2.0'), git('rev-parse', 'HEAD'))
  t.match(release('0.2.0'), { status: 2, said: /v0\.2\.0 is there already/ })
})

t.test('nothing is made of what is not ready', async (t) => {
  const { folder, git, release } = projectOf(t)
  t.match(release('next'), { status: 2, said: /Which version/ })
  t.match(release('0.3.0'), { status: 2, said: /no line '## 0\.3\.0, unreleased'/ })
  t.match(release('0.2.0', { FAILS: '1' }), { status: 1 }, 'its tests fail')
  writeFileSync(join(folder, 'new.txt'), 'not committed')
  t.match(release('0.2.0'), { status: 2, said: /not committed/ })
  t.strictSame([git('tag'), git('log', '--format=%s')], ['', 'Begin'])
})
