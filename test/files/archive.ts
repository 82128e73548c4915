// Archives of strangers: what is harmless is read, everything else is refused before anything is written.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ArchiveError, readArchive, readMember } from '../../lib/files/archive.ts'
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

const one = (name: string, more: Partial<ZipMember> = {}): ZipMember[] => [{ name, data: 'x', ...more }]
const HOSTILE: Readonly<Record<string, ZipMember[]>> = {
  'parent path': one('../evil'),
  'parent path inside': one('a/../../evil'),
  'parent path at the end': one('a/..'),
  'only dots': one('..'),
  'here path': one('./a'),
  'here path inside': one('a/./b'),
  'absolute path': one('/etc/passwd'),
  'absolute path of windows': one('C:\\evil'),
  'drive letter': one('C:evil'),
  'share of windows': one('\\\\host\\share'),
  backslash: one('a\\..\\..\\evil'),
  'empty part': one('a//b'),
  'no name': one(''),
  NUL: one('a\0b'),
  'line feed': one('a\nb'),
  escape: one('a\x1b[2Jb'),
  delete: one('a\x7fb'),
  'C1 control': one('a\u009bb'),
  wildcard: one('a*b'),
  question: one('a?b'),
  pipe: one('a|b'),
  quote: one('a"b'),
  stream: one('a:stream'),
  'dot at the end': one('a./b'),
  'space at the end': one('a '),
  'long part': one('x'.repeat(256)),
  'long part in bytes': one('ü'.repeat(128)),
  'deep path': one(Array.from({ length: 40 }, () => 'd').join('/')),
  'symbolic link': one('link', { data: '/etc/passwd', mode: 0o120777 }),
  'symbolic link to a folder': one('link/', { mode: 0o120777 }),
  device: one('dev', { mode: 0o020666 }),
  'block device': one('dev', { mode: 0o060666 }),
  fifo: one('fifo', { mode: 0o010666 }),
  socket: one('socket', { mode: 0o140666 }),
  encrypted: one('secret', { encrypted: true }),
  'the same twice': [...one('a'), ...one('a')],
  'the same in another case': [...one('Read.me'), ...one('READ.ME')],
  'the same with other accents': [...one('é'), ...one('e\u0301')],
  'a file where a folder is': [...one('a'), ...one('a/b')],
  'a file where a folder of another case is': [...one('A'), ...one('a/b')],
  'zip inside': one('inner.zip', { data: zipOf(one('x')) }),
  'zip inside under another name': one('inner.txt', { data: zipOf(one('x')) }),
  'gzip inside': one('inner.bin', { data: Buffer.from([0x1f, 0x8b, 8, 0]) }),
  '7z inside': one('inner.bin', { data: Buffer.from('7z\xbc\xaf\x27\x1c', 'latin1') }),
  'rar inside': one('inner.bin', { data: 'Rar!\x1a' }),
  'tar inside': one('inner.tar'),
  'tgz inside': one('a/inner.TGZ'),
  'skill inside': one('other.skill'),
  'jar inside': one('x.jar'),
  'a large member': one('big', { data: Buffer.alloc(100_001) }),
  'a bomb': one('zeros', { data: Buffer.alloc(5_000_000) }),
  'a bomb that claims to be small': one('zeros', { data: Buffer.alloc(5_000_000), claims: 10 }),
  'a member that claims to be huge': one('small', { claims: 4_000_000_000 }),
  'a member that claims to be empty': one('small', { data: 'not empty', claims: 0 }),
  'many members that are large together': Array.from({ length: 5 }, (_, n) => ({
    name: `f${n}`,
    data: Buffer.alloc(80_000)
  })),
  'too many members': Array.from({ length: 21 }, (_, n) => ({ name: `f${n}` })),
  'too many folders': Array.from({ length: 2000 }, (_, n) => ({ name: `${'d/'.repeat(20)}${n}` }))
}

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
  t.equal((await readMember(path, 'top.txt', LIMITS))?.toString(), 'top')
  t.equal((await readMember(path, 'SKILL.md', LIMITS))?.toString(), 'skill')
  t.equal(await readMember(path, 'none', LIMITS), null)
  t.equal(await readMember(join(folder, 'none.skill'), 'a', LIMITS), null)
})
