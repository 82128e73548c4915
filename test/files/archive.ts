// Archives of strangers: what is harmless is read, everything else is refused before anything is written.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ArchiveError, readArchive, openMember } from '../../lib/files/archive.ts'
import { Artifacts, memberIn } from '../../lib/files/artifacts.ts'
import { MutexBusy } from '../../lib/base/keyed-mutex.ts'
import { Paths } from '../../lib/files/paths.ts'
import { hostileArchives } from '../fixtures/hostile.ts'
import { until } from '../fixtures/until.ts'
import { type ZipMember, zipOf } from '../fixtures/zip.ts'

const LIMITS = { members: 20, memberBytes: 100_000, totalBytes: 300_000 }
const folder = mkdtempSync(join(tmpdir(), 'colloquy-archive-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

function fileOf(bytes: Buffer): string {
  const path = join(folder, `${Math.random().toString(36).slice(2)}.zip`)
  writeFileSync(path, bytes)
  return path
}
const archive = (members: readonly ZipMember[]) => fileOf(zipOf(members))

t.test('the members of a harmless archive are read, folders and all', async (t) => {
  const members = await readArchive(
    archive([
      { name: 'a/', mode: 0o040755 },
      { name: 'a/ü.txt', data: 'one' },
      { name: 'a/b/c.md', data: 'two' },
      { name: 'exe', mode: 0o100755 }
    ]),
    LIMITS
  )
  t.same(
    members.map(({ path, content }) => [path, content.toString()]),
    [
      ['a/ü.txt', 'one'],
      ['a/b/c.md', 'two'],
      ['exe', '']
    ]
  )
})

const HOSTILE = hostileArchives(LIMITS)

for (const [what, members] of Object.entries(HOSTILE))
  t.test(`refused: ${what}`, async (t) => {
    await t.rejects(readArchive(archive(members), LIMITS), { name: 'ArchiveError' })
  })

t.test('what is no archive, or half of one, or a damaged one, is refused and never crashes', async (t) => {
  const whole = zipOf([{ name: 'a', data: 'x'.repeat(1000) }])
  const damaged = Buffer.from(whole)
  damaged.fill(0xff, 35, 40)
  const corpus = [Buffer.alloc(0), Buffer.from('no zip'), whole.subarray(0, 60), whole.subarray(20), damaged]
  for (const bytes of corpus) await t.rejects(readArchive(fileOf(bytes), LIMITS), { name: 'ArchiveError' })
  for (let cut = 1; cut < whole.length; cut++) {
    const outcome = await readArchive(fileOf(whole.subarray(0, cut)), LIMITS).catch((error: unknown) => error)
    if (!(outcome instanceof ArchiveError)) t.fail(`cut at ${cut}: ${outcome}`)
  }
})

t.test('one member is found by its path, or below the one folder that holds everything', async (t) => {
  const path = archive([
    { name: 'top.txt', data: 'top' },
    { name: 'demo/SKILL.md', data: 'skill' }
  ])
  const head = async (member: string, from = path) => {
    const opened = await openMember(from, member, LIMITS, 2)
    if (opened === null) return null
    const chunks: Buffer[] = []
    for await (const chunk of opened.read()) chunks.push(chunk)
    opened.close()
    return [opened.head.toString(), Buffer.concat(chunks).toString()]
  }
  t.strictSame(await head('top.txt'), ['to', 'top'])
  t.strictSame(await head('SKILL.md'), ['sk', 'skill'])
  t.equal(await head('none'), null)
  t.equal(await head('a', join(folder, 'none.skill')), null)
})

t.test(
  '[18.A.3] four members are unpacked at a time for a user; others wait, up to a number, and other users do not',
  async (t) => {
    const paths = new Paths(t.testdir())
    const artifacts = new Artifacts(paths)
    const zip = zipOf([{ name: 'a.txt', data: 'words' }])
    for (const user of ['ann', 'ben']) writeFileSync(join(await paths.makeUploads('thread', user), 'a.skill'), zip)
    const open = (user: string) => artifacts.open('thread', user, '/mnt/user-data/uploads/a.skill/a.txt')
    const first = await Promise.all([1, 2, 3, 4].map(() => open('ann')))
    let [opened, refused] = [0, 0]
    // They arrive in any order: which of them is one too many is chance.
    const waiting = Array.from({ length: 101 }, async () => {
      const artifact = await open('ann').catch((error: unknown) => {
        if (!(error instanceof MutexBusy)) throw error
        refused++
      })
      if (!artifact) return
      opened++
      await artifact.close()
    })
    await until(() => refused > 0, 'one too many')
    await (await open('ben')).close()
    t.equal(opened, 0, 'they wait')
    for (const artifact of first) await artifact.close()
    await Promise.all(waiting)
    t.strictSame([opened, refused], [100, 1])
  }
)

t.test('a path of many archives is taken apart in one pass, whatever stands behind them', (t) => {
  t.strictSame(memberIn('a/B.SKILL/c.skill/d'), { archive: 'a/B.SKILL', member: 'c.skill/d' })
  for (const path of ['a.skill', 'a.skill/', 'a.skills/b', 'skill/b']) t.equal(memberIn(path), null, path)
  const timeOf = (archives: number) => {
    const began = performance.now()
    memberIn(`${'x.skill/'.repeat(archives)}\n`)
    return performance.now() - began
  }
  timeOf(100)
  t.ok(timeOf(100_000) < 100, 'it took minutes')
  t.end()
})
