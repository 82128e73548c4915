// Taking files in: whole requests or nothing, counted while they come, under names that lead nowhere else.
import { execFileSync } from 'node:child_process'
import { link, mkdir, readdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Paths, PathError } from '../../lib/files/paths.ts'
import { UploadError, type UploadLimits, type UploadSource } from '../../lib/files/upload-receiver.ts'
import { Uploads } from '../../lib/files/uploads.ts'

const THREAD = 'thread-1'
const USER = 'user-1'
const BOUNDARY = 'test-boundary'
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`
const NO_LIMITS: UploadLimits = { max_files: 0, max_file_size: 0, max_total_size: 0, user_bytes: 0 }

type Part = readonly [name: string, content: string | Buffer, field?: string]

const headOf = (name: string, field = 'files') =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${field}"; filename="${name}"\r\n\r\n`
const END = `--${BOUNDARY}--\r\n`

const formOf = (parts: readonly Part[]): Buffer =>
  Buffer.concat([
    ...parts.flatMap(([name, content, field]) => [
      Buffer.from(headOf(name, field)),
      Buffer.from(content),
      Buffer.from('\r\n')
    ]),
    Buffer.from(END)
  ])

const sourceOf = (chunks: Iterable<Buffer> | AsyncIterable<Buffer>, type = TYPE): UploadSource =>
  Object.assign(Readable.from(chunks, { objectMode: false }), { headers: { 'content-type': type } })

const open = (t: Test, limits: Partial<UploadLimits> = {}) => {
  const paths = new Paths(t.testdir())
  const uploads = new Uploads(paths, { ...NO_LIMITS, ...limits })
  return {
    paths,
    uploads,
    folder: paths.uploads(THREAD, USER),
    send: (...parts: Part[]) => uploads.receive(sourceOf([formOf(parts)]), THREAD, USER),
    receive: (source: UploadSource) => uploads.receive(source, THREAD, USER),
    content: (name: string) => readFile(join(paths.uploads(THREAD, USER), name), 'utf8'),
    /** Every file that lies anywhere below the home. */
    async files(): Promise<string[]> {
      const found = await readdir(paths.home, { recursive: true, withFileTypes: true })
      return found.filter((entry) => !entry.isDirectory()).map((entry) => entry.name)
    }
  }
}

const problemOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work
    return 'none'
  } catch (error) {
    if (error instanceof UploadError || error instanceof PathError) return error.problem
    throw error
  }
}

t.test('the files of a form are kept in its order, and parts of other names are passed over', async (t) => {
  const { send, content, files } = open(t)
  const answer = await send(['b.txt', 'two'], ['other.txt', 'not ours', 'attachment'], ['a.txt', ''])
  t.strictSame(answer, {
    files: [
      { filename: 'b.txt', size: 3, original: null },
      { filename: 'a.txt', size: 0, original: null }
    ],
    skipped: []
  })
  t.equal(await content('b.txt'), 'two')
  t.strictSame((await files()).sort(), ['a.txt', 'b.txt'], 'and no draft is left')
})

t.test('whatever the bytes and however they are cut on the way, the same bytes are kept', async (t) => {
  const { receive, folder } = open(t)
  const content = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.constantFrom(`\r\n--${BOUNDARY}`, `\r\n--${BOUNDARY.slice(0, -1)}\r\n`, '\r\n\r\n--', '').map((text) =>
      // Look-alikes of a delimiter, but never one.
      Buffer.from(text.replace(BOUNDARY, BOUNDARY.toUpperCase()))
    )
  )
  const many = fc.array(content, { minLength: 1, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(many, fc.infiniteStream(fc.integer({ min: 1, max: 80 })), async (contents, steps) => {
      const form = formOf(contents.map((bytes, i) => [`f${i}.bin`, Buffer.from(bytes)]))
      const chunks: Buffer[] = []
      for (let at = 0; at < form.length; ) {
        const step = steps.next().value ?? 1
        chunks.push(form.subarray(at, at + step))
        at += step
      }
      await receive(sourceOf(chunks))
      for (const [i, bytes] of contents.entries()) {
        if (!(await readFile(join(folder, `f${i}.bin`))).equals(Buffer.from(bytes))) throw new Error('other bytes')
      }
    }),
    { numRuns: 40 }
  )
})

t.test('of a path the last part counts; what is no name is skipped and told', async (t) => {
  const { send, uploads } = open(t)
  const bad = ['..', '.', 'a/', 'a\\b', '..\\..\\x', 'line\tfeed', `${'x'.repeat(252)}.txt`, `${'ü'.repeat(126)}.txt`]
  const answer = await send(['../../etc/passwd', '1'], ['/abs/olute.txt', '2'], ...bad.map((name): Part => [name, 'x']))
  t.strictSame(
    answer.files.map(({ filename, original }) => [filename, original]),
    [
      ['passwd', '../../etc/passwd'],
      ['olute.txt', '/abs/olute.txt']
    ]
  )
  t.strictSame(answer.skipped, bad)
  const listed = await uploads.list(THREAD, USER)
  t.strictSame(
    listed.map((one) => one.filename),
    ['olute.txt', 'passwd']
  )
})

t.test('names that Windows or a shell would stumble over are names like others', async (t) => {
  const { send } = open(t)
  const names = ['CON', 'aux.txt', '-rf', '.hidden', '100%.txt', 'a;b.txt', "it's $(x).txt", '🦜.txt', 'x'.repeat(255)]
  const { files } = await send(...names.map((name): Part => [name, name]))
  t.strictSame(
    files.map((file) => file.filename),
    names
  )
})

t.test('two spellings of one letter are one name', async (t) => {
  const { send } = open(t)
  const composed = 'caf\u00e9.txt'
  const { files } = await send([composed, '1'], ['cafe\u0301.txt', '2'])
  t.strictSame(
    files.map((file) => file.filename),
    [composed, 'caf\u00e9_1.txt']
  )
})

t.test('two files of one name in a request are both kept, and the new name takes nobody’s place', async (t) => {
  const { send, content } = open(t)
  await send(['notes_1.txt', 'from before'], ['gz', 'x'])
  const { files } = await send(['notes.txt', 'a'], ['notes.txt', 'b'], ['notes.txt', 'c'], ['.gz', '1'], ['.gz', '2'])
  t.strictSame(
    files.map(({ filename, original }) => [filename, original]),
    [
      ['notes.txt', null],
      ['notes_2.txt', 'notes.txt'],
      ['notes_3.txt', 'notes.txt'],
      ['.gz', null],
      ['.gz_1', '.gz']
    ]
  )
  t.equal(await content('notes_1.txt'), 'from before')
  t.equal(await content('notes_3.txt'), 'c')
})

t.test('a name that is as long as can be gets its number all the same, and keeps whole characters', async (t) => {
  const { send } = open(t)
  const long = `${'ü'.repeat(125)}x.txt`
  const { files } = await send([long, '1'], [long, '2'])
  t.equal(files[1]?.filename, `${'ü'.repeat(124)}_1.txt`)
})

t.test('a file of an earlier request is replaced', async (t) => {
  const { send, content, files } = open(t)
  await send(['a.txt', 'old and longer'])
  await send(['a.txt', 'new'])
  t.equal(await content('a.txt'), 'new')
  t.strictSame(await files(), ['a.txt'])
})

t.test('links, folders and pipes that lie under a name are left alone, and so is what they lead to', async (t) => {
  const { send, folder, paths, content } = open(t)
  const outside = join(paths.home, 'outside.txt')
  await send(['first.txt', 'x'])
  await writeFile(outside, 'untouched')
  await symlink(outside, join(folder, 'link.txt'))
  await symlink('nowhere', join(folder, 'dangling.txt'))
  await link(outside, join(folder, 'hard.txt'))
  await mkdir(join(folder, 'folder.txt'))
  execFileSync('mkfifo', [join(folder, 'pipe.txt')])
  const planted = ['link.txt', 'dangling.txt', 'hard.txt', 'folder.txt', 'pipe.txt']
  const answer = await send(...planted.map((name): Part => [name, 'evil']), ['good.txt', 'good'])
  t.strictSame(answer.skipped, planted)
  t.equal(await readFile(outside, 'utf8'), 'untouched')
  t.equal(await content('good.txt'), 'good')
  t.notOk((await readdir(folder)).includes('nowhere'))
})

t.test('an uploads folder that was replaced by a link takes and shows nothing', async (t) => {
  const { send, folder, paths, uploads, files } = open(t)
  const outside = join(paths.home, 'outside')
  await mkdir(outside)
  await writeFile(join(outside, 'theirs.txt'), 'x')
  await mkdir(paths.userData(THREAD, USER), { recursive: true })
  await symlink(outside, folder)
  t.equal(await problemOf(send(['a.txt', 'evil'])), 'escapes')
  t.strictSame(await uploads.list(THREAD, USER), [])
  t.equal(await uploads.remove(THREAD, USER, 'theirs.txt'), false)
  t.strictSame((await files()).sort(), ['theirs.txt', 'uploads'])
})

t.test('a limit may be reached and not passed; what passes it leaves nothing and replaces nothing', async (t) => {
  const { send, content, files } = open(t, { max_files: 3, max_file_size: 10, max_total_size: 25 })
  await send(['keep.txt', '1234567890'], ['b', '1234567890'], ['c', '12345'])
  const before = await files()
  t.equal(await problemOf(send(['keep.txt', 'x'], ['b', 'x'], ['..', 'x'], ['d', 'x'])), 'too_many_files')
  t.equal(await problemOf(send(['keep.txt', 'x'], ['d', '12345678901'])), 'file_too_large')
  t.equal(await problemOf(send(['keep.txt', '1234567890'], ['d', '1234567890'], ['e', '123456'])), 'total_too_large')
  t.equal(await content('keep.txt'), '1234567890')
  t.strictSame(await files(), before)
})

t.test('a body without an end is refused when a limit is passed, wherever its bytes lie', async (t) => {
  const megabyte = Buffer.alloc(1024 * 1024, 'x')
  async function* endless(head: string, chunk = megabyte) {
    yield Buffer.from(head)
    for (;;) yield chunk
  }
  const field = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="note"\r\n\r\n`
  const empty = Buffer.from(`${field}\r\n`.repeat(100))
  for (const [limits, body, problem] of [
    [{ max_file_size: 5_000_000 }, endless(headOf('a.bin')), 'file_too_large'],
    [{ max_total_size: 5_000_000 }, endless(headOf('a.bin')), 'total_too_large'],
    [{ max_total_size: 5_000_000 }, endless(headOf('..')), 'total_too_large'],
    [{ max_total_size: 5_000_000 }, endless(headOf('a.bin', 'other')), 'total_too_large'],
    [{ max_total_size: 5_000_000 }, endless(field), 'total_too_large'],
    [{ max_total_size: 5_000_000 }, endless('a preamble'), 'total_too_large'],
    [{ max_files: 2, max_file_size: 1_000_000 }, endless(field), 'total_too_large'],
    [{ max_files: 2 }, endless('', empty), 'too_many_files']
  ] as const) {
    const { receive, files } = open(t, limits)
    t.equal(await problemOf(receive(sourceOf(body))), problem)
    t.strictSame(await files(), [])
  }
})

t.test('a length that is too much is refused before anything is read', async (t) => {
  const { receive } = open(t, { max_total_size: 1000 })
  const source = sourceOf([formOf([['a.txt', 'x']])])
  source.headers['content-length'] = '2000000'
  t.equal(await problemOf(receive(source)), 'total_too_large')
  t.equal(source.readableDidRead, false)
})

t.test('a client that goes away, in the middle or before we looked, leaves nothing', async (t) => {
  const { receive, send, content, files } = open(t)
  await send(['a.txt', 'old'])
  async function* broken() {
    yield Buffer.from(`${headOf('a.txt')}the first half`)
    throw new Error('ECONNRESET')
  }
  t.equal(await problemOf(receive(sourceOf(broken()))), 'cut')
  const gone = sourceOf([formOf([['a.txt', 'new']])])
  gone.destroy()
  t.equal(await problemOf(receive(gone)), 'cut')
  t.equal(await content('a.txt'), 'old')
  t.strictSame(await files(), ['a.txt'])
})

t.test('a form that ends anywhere before its end is refused and leaves nothing', async (t) => {
  const { receive, files } = open(t)
  const whole = formOf([
    ['a.txt', 'some content'],
    ['b.txt', 'and more']
  ])
  // Without the last line break it is whole, and without the second of the last dashes it is not.
  for (let length = 1; length < whole.length - 2; length++) {
    const problem = await problemOf(receive(sourceOf([whole.subarray(0, length)])))
    if (problem !== 'malformed') t.fail(`${length} bytes: ${problem}`)
  }
  t.strictSame(await files(), [])
})

t.test('nonsense between the delimiters ends a request and never the process', async (t) => {
  const { receive } = open(t, { max_total_size: 10_000 })
  const whole = formOf([
    ['a.txt', 'some content'],
    ['b.txt', 'more', 'other']
  ])
  const edits = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.uint8Array({ maxLength: 6 })), { maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(edits, async (changes) => {
      let form = whole
      for (const [at, bytes] of changes) form = Buffer.concat([form.subarray(0, at), bytes, form.subarray(at + 2)])
      await problemOf(receive(sourceOf([form])))
    }),
    { numRuns: 300 }
  )
})

t.test('a body without files says what is missing', async (t) => {
  const { receive, send, files } = open(t)
  const bytes = [formOf([['a.txt', 'x']])]
  t.equal(await problemOf(send()), 'no_files_part')
  t.equal(await problemOf(send(['a.txt', 'x', 'other'])), 'no_files_part')
  t.equal(await problemOf(receive(sourceOf(bytes, 'application/json'))), 'no_files_part')
  t.equal(await problemOf(receive(sourceOf(bytes, ''))), 'no_files_part')
  t.equal(await problemOf(receive(sourceOf(bytes, 'application/x-www-form-urlencoded'))), 'no_files_part')
  t.equal(await problemOf(send(['', ''])), 'no_files', 'a page sent its form with nothing chosen')
  t.equal(await problemOf(receive(sourceOf(bytes, 'multipart/form-data'))), 'malformed')
  t.equal(await problemOf(receive(sourceOf(bytes, 'multipart/form-data; boundary=other'))), 'malformed')
  t.equal(await problemOf(receive(sourceOf([]))), 'malformed')
  t.strictSame(await files(), [])
})

t.test('uploads of one name at the same time end with one of them, whole', async (t) => {
  const { send, content, files } = open(t)
  const contents = Array.from({ length: 20 }, (_, i) => String.fromCharCode(97 + i).repeat(100_000))
  await Promise.all(contents.map((text) => send(['a.txt', text])))
  t.ok(contents.includes(await content('a.txt')))
  t.strictSame(await files(), ['a.txt'])
})

t.test(
  'drafts of a process that was killed are removed by a later upload, those of a living one are not',
  async (t) => {
    const { send, paths, files } = open(t)
    const incoming = paths.incoming(USER)
    for (const name of ['old', 'young']) {
      await mkdir(join(incoming, name), { recursive: true })
      await writeFile(join(incoming, name, name), 'x')
    }
    const yesterday = Date.now() / 1000 - 86_400
    await utimes(join(incoming, 'old'), yesterday, yesterday)
    await send(['a.txt', 'x'])
    t.strictSame((await files()).sort(), ['a.txt', 'young'])
  }
)

t.test('where nothing may be replaced, uploads of one name at the same time are all kept', async (t) => {
  const { uploads, content } = open(t)
  const stays = async () => ({ replaces: false })
  const texts = Array.from({ length: 12 }, (_, n) => `the text of ${n}`)
  const received = await Promise.all(
    texts.map((text) => uploads.receive(sourceOf([formOf([['a.txt', text]])]), THREAD, USER, stays))
  )
  const names = received.flatMap(({ files }) => files.map(({ filename }) => filename))
  t.equal(new Set(names).size, texts.length)
  t.strictSame(await Promise.all(names.map(content)), texts, 'each under the name that was told')
})

t.test('the list shows plain files by name, with size and time, and is empty where nothing is', async (t) => {
  const { send, uploads, folder } = open(t)
  t.strictSame(await uploads.list(THREAD, USER), [])
  await send(['b.txt', 'two'], ['a.md', '# one'])
  await symlink('/etc/hostname', join(folder, 'link.txt'))
  await mkdir(join(folder, 'folder'))
  await utimes(join(folder, 'a.md'), 1000, 1234.5)
  const listed = await uploads.list(THREAD, USER)
  t.match(listed, [
    { filename: 'a.md', size: 5, modified: 1234.5 },
    { filename: 'b.txt', size: 3, modified: Number }
  ])
  t.equal(listed.length, 2)
  t.strictSame(await uploads.list(THREAD, 'another'), [])
})

t.test(
  'a file is removed once, with the Markdown that was made of it; links and folders are not removed',
  async (t) => {
    const { send, uploads, folder, files } = open(t)
    const remove = (name: string) => uploads.remove(THREAD, USER, name)
    t.equal(await remove('a.txt'), false)
    await send(['a.txt', 'x'], ['a.md', 'x'], ['report.PDF', 'x'], ['report.md', 'x'])
    await symlink('a.md', join(folder, 'link.txt'))
    await mkdir(join(folder, 'folder'))
    t.equal(await remove('a.txt'), true)
    t.equal(await remove('a.txt'), false)
    t.equal(await remove('report.PDF'), true)
    t.equal(await remove('link.txt'), false)
    t.equal(await remove('folder'), false)
    t.equal(await remove('x'.repeat(300)), false)
    t.strictSame((await files()).sort(), ['a.md', 'link.txt'])
  }
)

t.test('nothing but a name is removed', async (t) => {
  const { uploads, paths, files } = open(t)
  await paths.write(THREAD, USER, 'safe.txt', 'safe')
  for (const name of ['', '.', '..', '../outputs/safe.txt', '..\\outputs\\safe.txt', 'a/b', '/etc/passwd', 'a\0']) {
    t.equal(await problemOf(uploads.remove(THREAD, USER, name)), 'escapes', JSON.stringify(name))
  }
  t.strictSame(await files(), ['safe.txt'])
})

t.test('ids that cannot be part of a path are refused before anything is written', async (t) => {
  const { uploads, files } = open(t)
  const source = sourceOf([formOf([['a.txt', 'x']])])
  t.equal(await problemOf(uploads.receive(source, '..', USER)), 'bad_id')
  t.equal(await problemOf(uploads.receive(source, THREAD, '../x')), 'bad_id')
  t.equal(await problemOf(uploads.list('..', USER)), 'bad_id')
  t.equal(await problemOf(uploads.remove('..', USER, 'a.txt')), 'bad_id')
  t.strictSame(await files(), [])
})

t.test('what is published while the files of a user are counted counts as well', async (t) => {
  const { paths, send, files } = open(t, { user_bytes: 100 })
  const count = paths.uploadedBytes.bind(paths)
  // The first request has counted nothing, and goes on when the second one has ended.
  let goOn = () => {}
  const held = new Promise<void>((resolve) => {
    goOn = resolve
  })
  let begun = () => {}
  const isCounting = new Promise<void>((resolve) => {
    begun = resolve
  })
  paths.uploadedBytes = async (user) => {
    paths.uploadedBytes = count
    const bytes = await count(user)
    begun()
    await held
    return bytes
  }
  const first = problemOf(send(['a.bin', Buffer.alloc(60)]))
  await isCounting
  await send(['b.bin', Buffer.alloc(60)])
  goOn()
  t.equal(await first, 'over_quota')
  t.strictSame(await files(), ['b.bin'])
  await send(['c.bin', Buffer.alloc(40)])
  t.equal(await problemOf(send(['d.bin', Buffer.alloc(1)])), 'over_quota')
})
