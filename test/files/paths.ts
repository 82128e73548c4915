import { link, lstat, mkdir, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { filesBelow, PathError, type PathProblem, Paths } from '../../lib/files/paths.ts'

const THREAD = 'thread-1'
const USER = 'user_1'

const prepare = (paths: Paths, user = USER) =>
  Promise.all(
    [paths.uploads(THREAD, user), join(paths.userData(THREAD, user), 'outputs')].map((path) =>
      mkdir(path, { recursive: true })
    )
  )

const problemOf = async (work: () => unknown): Promise<PathProblem | 'none'> => {
  try {
    await work()
    return 'none'
  } catch (error) {
    if (error instanceof PathError) return error.problem
    throw error
  }
}

t.test('the files of a user lie below users/, those without a user where they lay before', async (t) => {
  const paths = new Paths('/home/x')
  t.equal(paths.threadDir(THREAD, USER), '/home/x/users/user_1/threads/thread-1')
  t.equal(join(paths.userData(THREAD, USER), 'outputs'), '/home/x/users/user_1/threads/thread-1/user-data/outputs')
  t.equal(paths.uploads(THREAD), '/home/x/threads/thread-1/user-data/uploads')
  t.equal(join(paths.userData(THREAD), 'workspace'), '/home/x/threads/thread-1/user-data/workspace')
})

t.test('an id becomes part of a path only when all of it is harmless', async (t) => {
  const paths = new Paths('/home/x')
  for (const id of ['', '.', '..', 'a/b', 'a\\b', 'a\n', 'a\0', 'ä', 'a b', '../../etc']) {
    t.equal(await problemOf(() => paths.threadDir(id)), 'bad_id', `thread ${JSON.stringify(id)}`)
    t.equal(await problemOf(() => paths.threadDir(THREAD, id)), 'bad_id', `user ${JSON.stringify(id)}`)
    t.equal(await problemOf(() => paths.locate('/mnt/user-data/x', id)), 'bad_id')
    t.equal(await problemOf(() => paths.removeThread(id)), 'bad_id')
  }
})

t.test('a virtual path is found as it was written, with and without its leading slash', async (t) => {
  const paths = new Paths(t.testdir())
  const virtual = await paths.write(THREAD, USER, 'deep/er/a.txt', 'hello')
  t.equal(virtual, '/mnt/user-data/outputs/deep/er/a.txt')
  for (const path of [virtual, virtual.slice(1)])
    t.equal(await readFile(await paths.locate(path, THREAD, USER), 'utf8'), 'hello')
  t.equal(await problemOf(() => paths.locate(virtual, THREAD, 'another')), 'missing')
  t.equal(await problemOf(() => paths.locate('/mnt/user-data/outputs/none', THREAD, USER)), 'missing')
  t.equal(await problemOf(() => paths.locate(`/mnt/user-data/outputs/${'x'.repeat(300)}`, THREAD, USER)), 'missing')
})

t.test('what is not below /mnt/user-data, segment by segment, is no virtual path', async (t) => {
  const paths = new Paths(t.testdir())
  await prepare(paths)
  for (const path of ['/etc/passwd', '/mnt/user-dataX/a', 'outputs/a', '', '/mnt', '/mnt/../mnt/user-data/a']) {
    t.equal(await problemOf(() => paths.locate(path, THREAD, USER)), 'not_virtual', path)
  }
})

t.test('no path leads out: not by dots, not over links, not with a NUL or a backslash', async (t) => {
  const home = t.testdir({ 'secret.txt': 'secret', outside: { 'x.txt': 'x' } })
  const paths = new Paths(home)
  await prepare(paths)
  await symlink(join(home, 'secret.txt'), join(join(paths.userData(THREAD, USER), 'outputs'), 'link.txt'))
  await symlink(join(home, 'outside'), join(join(paths.userData(THREAD, USER), 'outputs'), 'folder'))
  await symlink(
    join(join(paths.userData(THREAD, USER), 'outputs'), 'loop'),
    join(join(paths.userData(THREAD, USER), 'outputs'), 'loop')
  )
  for (const path of [
    '../../../x',
    'a/../../x',
    '..',
    'a\\..\\b',
    'a\0b',
    '/etc/passwd',
    'folder/new.txt',
    'folder/x.txt',
    'link.txt',
    'loop'
  ]) {
    t.equal(
      await problemOf(() => paths.write(THREAD, USER, path, 'evil')),
      'escapes',
      `writing ${JSON.stringify(path)}`
    )
  }
  for (const path of ['../uploads/x', 'a\0b', 'link.txt', 'folder', 'folder/x.txt']) {
    t.equal(
      await problemOf(() => paths.locate(`/mnt/user-data/outputs/${path}`, THREAD, USER)),
      'escapes',
      `reading ${JSON.stringify(path)}`
    )
  }
  t.equal(await problemOf(() => paths.locate('/mnt/user-data/outputs/loop', THREAD, USER)), 'missing')
  t.equal(await readFile(join(home, 'secret.txt'), 'utf8'), 'secret')
  t.same(await readdir(join(home, 'outside')), ['x.txt'])
})

t.test('outputs that were replaced by a link are not written to', async (t) => {
  const home = t.testdir({ outside: {} })
  const paths = new Paths(home)
  await mkdir(paths.userData(THREAD, USER), { recursive: true })
  await symlink(join(home, 'outside'), join(paths.userData(THREAD, USER), 'outputs'))
  t.equal(await problemOf(() => paths.write(THREAD, USER, 'a.txt', 'evil')), 'escapes')
  t.same(await readdir(join(home, 'outside')), [])
})

t.test('a home that is reached over a link works', async (t) => {
  const root = t.testdir({ real: {} })
  await symlink(join(root, 'real'), join(root, 'home'))
  const paths = new Paths(join(root, 'home'))
  const virtual = await paths.write(THREAD, USER, 'a.txt', 'hello')
  t.equal(await readFile(await paths.locate(virtual, THREAD, USER), 'utf8'), 'hello')
})

t.test('a write replaces the file and leaves other names of it alone', async (t) => {
  const home = t.testdir()
  const paths = new Paths(home)
  await paths.write(THREAD, USER, 'a.txt', 'old')
  const outputs = join(paths.userData(THREAD, USER), 'outputs')
  await link(join(outputs, 'a.txt'), join(home, 'other-name.txt'))
  await paths.write(THREAD, USER, '/mnt/user-data/outputs/a.txt', 'new')
  t.equal(await readFile(join(outputs, 'a.txt'), 'utf8'), 'new')
  t.equal(await readFile(join(home, 'other-name.txt'), 'utf8'), 'old')
  t.same(await readdir(outputs), ['a.txt'], 'no draft is left')
})

t.test('a folder is no file, and a file no folder; what the disk refuses names no real path', async (t) => {
  const paths = new Paths(t.testdir())
  await paths.write(THREAD, USER, 'folder/a.txt', 'a')
  for (const path of ['folder', 'folder/a.txt/b', '', '.', '/mnt/user-data/outputs/']) {
    t.equal(await problemOf(() => paths.write(THREAD, USER, path, 'b')), 'not_a_file', JSON.stringify(path))
  }
  const long = 'x'.repeat(300)
  t.equal(await problemOf(() => paths.write(THREAD, USER, long, 'b')), 'failed')
  await paths.write(THREAD, USER, long, 'b').catch((error: Error) => t.notMatch(error.message, paths.home))
})

t.test('removing a thread removes its files, not what they link to, and says whether there were any', async (t) => {
  const home = t.testdir({ outside: { 'x.txt': 'x' } })
  const paths = new Paths(home)
  await prepare(paths)
  await prepare(paths, 'another')
  await symlink(join(home, 'outside'), join(join(paths.userData(THREAD, USER), 'outputs'), 'link'))
  await writeFile(join(paths.uploads(THREAD, USER), 'a'), 'a')
  t.equal(await paths.removeThread(THREAD, USER), true)
  t.equal(await paths.removeThread(THREAD, USER), false)
  await t.rejects(lstat(paths.threadDir(THREAD, USER)))
  t.equal(await readFile(join(home, 'outside', 'x.txt'), 'utf8'), 'x')
  t.ok((await lstat(paths.threadDir(THREAD, 'another'))).isDirectory())
})

t.test('removing a thread of everybody removes the files of everybody in it, and no other thread', async (t) => {
  const paths = new Paths(t.testdir())
  t.equal(await paths.removeSharedThread(THREAD), false)
  for (const user of [undefined, 'one', 'two']) await paths.write(THREAD, user, 'a.txt', 'x')
  await paths.write('other', 'one', 'a.txt', 'x')
  t.equal(await paths.removeSharedThread(THREAD), true)
  const left = await readdir(paths.home, { recursive: true })
  t.strictSame(
    left.filter((name) => name.endsWith('a.txt')),
    ['users/one/threads/other/user-data/outputs/a.txt']
  )
})

t.test('of a folder regular files are listed, also while folders come and go', async (t) => {
  const root = t.testdir({
    a: { b: { 'two.txt': '' }, 'one.txt': '' },
    link: t.fixture('symlink', 'a'),
    'zero.txt': ''
  })
  const all = ['a/b/two.txt', 'a/one.txt', 'zero.txt']
  t.strictSame(await filesBelow(root), all)
  t.strictSame(await filesBelow(join(root, 'none')), [])
  for (let round = 0; round < 20; round++) {
    const fleeting = Array.from({ length: 20 }, (_, n) => join(root, `x${n}`, 'y'))
    for (const folder of fleeting) await mkdir(folder, { recursive: true })
    const walk = filesBelow(root)
    await Promise.all(fleeting.map((folder) => rm(join(folder, '..'), { recursive: true })))
    t.strictSame(await walk, all)
  }
})
