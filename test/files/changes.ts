// What a run changes among files: the difference of two texts, and of two states of a workspace.
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import type { JsonObject } from '../../lib/base/types.ts'
import { WorkspaceChanges } from '../../lib/files/changes.ts'
import { lineDiff } from '../../lib/files/line-diff.ts'
import { Paths } from '../../lib/files/paths.ts'
import { homeOf } from '../fixtures/gateway.ts'

/** Applies hunks as `patch` does: lines of the old text between hunks stay, those in them must be the old ones. */
function patched(before: string, hunks: string): string {
  const old = before === '' ? [] : before.split(/(?<=\n)/)
  const given: string[] = []
  let at = 0
  const lines = hunks.split(/(?<=\n)/).filter((line) => line !== '')
  for (const [index, line] of lines.entries()) {
    const head = /^@@ -(\d+),(\d+) \+\d+,\d+ @@/.exec(line)
    const text = lines[index + 1]?.startsWith('\\') ? line.slice(1, -1) : line.slice(1)
    if (head) {
      const from = Number(head[2]) === 0 ? Number(head[1]) : Number(head[1]) - 1
      given.push(...old.slice(at, from))
      at = from
    } else if (line.startsWith('+')) given.push(text)
    else if (!line.startsWith('\\')) {
      if (old[at] !== text) throw new Error(`line ${at} is not ${text}`)
      if (line.startsWith(' ')) given.push(text)
      at++
    }
  }
  return [...given, ...old.slice(at)].join('')
}

t.test('a difference turns the old text into the new one, whatever they are', async (t) => {
  const lines = fc.array(fc.constantFrom('a', 'b', 'c', '', '@@', '-x', '+y'), { maxLength: 40 })
  const text = fc.tuple(lines, fc.boolean()).map(([all, ends]) => all.join('\n') + (ends ? '\n' : ''))
  fc.assert(
    fc.property(text, text, (before, after) => {
      const { hunks, additions, deletions } = lineDiff(before, after)
      const count = (mark: string) => hunks.split('\n').filter((line) => line.startsWith(mark)).length
      return (
        patched(before, hunks) === after &&
        (hunks === '') === (before === after) &&
        additions === count('+') &&
        deletions === count('-')
      )
    })
  )
  const many = (name: string) => Array.from({ length: 5000 }, (_, n) => `${name} ${n}\n`).join('')
  const replaced = lineDiff(many('old'), many('new'))
  t.match(replaced, { additions: 5000, deletions: 5000 })
  t.equal(patched(many('old'), replaced.hunks), many('new'))
  t.equal(lineDiff('a\nb\nc\n', 'a\nc\n').hunks, '@@ -1,3 +1,2 @@\n a\n-b\n c\n')
})

const RUN = { thread_id: 'thread', user_id: 'user' }

t.test('what is created, modified, deleted and linked is told; what was only touched is not', async (t) => {
  const paths = new Paths(homeOf(t))
  const folder = join(paths.userData('thread', 'user'), 'workspace')
  mkdirSync(join(folder, 'node_modules'), { recursive: true })
  const write = (name: string, content: string | Buffer) => writeFileSync(join(folder, name), content)
  for (const name of ['a.txt', 'same.txt', 'gone.txt', '.env']) write(name, 'one\ntwo\n')
  write('large.txt', 'x'.repeat(300_000))
  const told: JsonObject[] = []
  const work = async () => {
    write('a.txt', 'one\n2\n')
    write('same.txt', 'one\ntwo\n')
    write('.env', 'SECRET=1\n')
    write('large.txt', 'y'.repeat(300_000))
    write('picture.png', Buffer.from([0x89, 0, 1]))
    write('new.txt', 'no end')
    write('node_modules/tool.js', 'x')
    rmSync(join(folder, 'gone.txt'))
    symlinkSync('/etc/passwd', join(folder, 'link'))
  }
  await new WorkspaceChanges(paths).during(RUN, work, (_, changes) => told.push(changes))
  const [changes] = told
  t.match(changes!.summary, { created: 2, modified: 3, deleted: 1, symlink_created: 1, additions: 2, deletions: 3 })
  const files = Object.fromEntries((changes!.files as JsonObject[]).map((file) => [String(file.path).slice(25), file]))
  t.strictSame(Object.keys(files).sort(), ['.env', 'a.txt', 'gone.txt', 'large.txt', 'link', 'new.txt', 'picture.png'])
  const name = 'mnt/user-data/workspace/a.txt'
  t.equal(files['a.txt']?.diff, `--- a/${name}\n+++ b/${name}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n`)
  t.match(files['new.txt'], { status: 'created', size_before: null, diff: /No newline at end of file/ })
  t.match(files['gone.txt'], { status: 'deleted', size_after: null, deletions: 2 })
  t.match(files['.env'], { sensitive: true, diff: '', diff_unavailable_reason: 'sensitive' })
  t.match(files['large.txt'], { diff: '', diff_unavailable_reason: 'large' })
  t.match(files['picture.png'], { binary: true, diff_unavailable_reason: 'binary' })
  t.match(files.link, { symlink: true, symlink_target_after: '/etc/passwd', diff: '', sha256_after: null })
  t.notMatch(JSON.stringify(changes), /SECRET/)
})

t.test('a run is not hindered by what cannot be compared, and of very many files some are told', async (t) => {
  const paths = new Paths(homeOf(t))
  const folder = join(paths.userData('thread', 'user'), 'outputs')
  const watch = new WorkspaceChanges(paths)
  const told: JsonObject[] = []
  const report = (_: string, changes: JsonObject) => void told.push(changes)
  await watch.during(RUN, async () => {}, report)
  t.equal(told.length, 0, 'there is no folder')
  await watch.during({ ...RUN, thread_id: '../x' }, async () => {}, report)
  await t.rejects(
    watch.during(RUN, () => Promise.reject(new Error('it fails')), report),
    /it fails/
  )
  const work = async () => {
    mkdirSync(folder, { recursive: true })
    for (let n = 0; n < 2100; n++) writeFileSync(join(folder, `${n}.txt`), 'line\n'.repeat(2000))
  }
  await watch.during(RUN, work, report)
  const files = told[0]!.files as JsonObject[]
  t.match(told[0]!.summary, { truncated: true, created: 2000 })
  t.equal(files.length, 200)
  t.ok(JSON.stringify(files).length < 2_000_000, 'differences have a mebibyte in all')
  t.ok(files.some(({ diff_truncated }) => diff_truncated))
})
