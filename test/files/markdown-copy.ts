// The Markdown file beside a document: made with it, replaced with it, removed with it, and never in place of a user's own.
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { Documents } from '../../lib/files/documents.ts'
import { Paths } from '../../lib/files/paths.ts'
import { Uploads } from '../../lib/files/uploads.ts'
import { docxOf, paragraph, pdfOf } from '../fixtures/documents.ts'
import { type FilePart, FORM_TYPE, formOf } from '../fixtures/form.ts'

const LIMITS = { max_files: 0, max_file_size: 0, max_total_size: 0, user_bytes: 0 }

const open = (t: Test) => {
  const paths = new Paths(t.testdir())
  const failed: string[] = []
  const documents = new Documents({ onFailed: ({ name }) => void failed.push(name) })
  t.teardown(() => documents.stop())
  const folder = paths.uploads('thread', 'user')
  const receiveWith = async (uploads: Uploads, parts: readonly FilePart[]) => {
    const body = Readable.from([formOf(parts)], { objectMode: false })
    const { files } = await uploads.receive(
      Object.assign(body, { headers: { 'content-type': FORM_TYPE } }),
      'thread',
      'user'
    )
    return files.map(({ filename, markdown }) => (markdown === undefined ? filename : [filename, markdown]))
  }
  const uploads = new Uploads(paths, LIMITS, documents)
  return {
    folder,
    failed,
    send: (...parts: FilePart[]) => receiveWith(uploads, parts),
    sendWithoutTexts: (...parts: FilePart[]) => receiveWith(new Uploads(paths, LIMITS), parts),
    remove: (name: string) => uploads.remove('thread', 'user', name),
    read: (name: string) => readFile(join(folder, name), 'utf8'),
    names: async () => (await readdir(folder)).sort()
  }
}

const docx = (words: string) => docxOf(paragraph(words))

t.test('a document gets a file with its text, which says whose it is', async (t) => {
  const { send, read, names } = open(t)
  t.same(await send(['my report.docx', docx('hello')], ['plain.txt', 'x']), [
    ['my report.docx', 'my report.md'],
    'plain.txt'
  ])
  t.equal(await read('my report.md'), '<!-- Text of "my report.docx" -->\n\nhello\n')
  t.same(await names(), ['my report.docx', 'my report.md', 'plain.txt'])
})

t.test(
  'a document that has no text is kept without a companion, and so is every other file of the request',
  async (t) => {
    const { send, failed, names } = open(t)
    t.same(await send(['bad.pdf', 'no PDF'], ['a.txt', 'x'], ['b.docx', docx('b')]), [
      'bad.pdf',
      'a.txt',
      ['b.docx', 'b.md']
    ])
    t.same(failed, ['bad.pdf'])
    t.same(await names(), ['a.txt', 'b.docx', 'b.md', 'bad.pdf'])
  }
)

t.test('the companion of a document that is replaced is replaced, or goes', async (t) => {
  const { send, sendWithoutTexts, read, names } = open(t)
  await send(['a.docx', docx('old')])
  await send(['a.docx', docx('new')])
  t.match(await read('a.md'), /new/)
  t.same(await send(['a.docx', 'none']), ['a.docx'])
  t.same(await names(), ['a.docx'], 'no text of what is not there any more')
  await send(['a.docx', docx('again')])
  await sendWithoutTexts(['a.docx', docx('without')])
  t.same(await names(), ['a.docx'])
})

t.test('a file of the user is never written over by a companion, be it older or of the same request', async (t) => {
  const { send, read, names } = open(t)
  await send(['a.md', 'mine'])
  t.same(await send(['a.docx', docx('text')]), [['a.docx', 'a.docx.md']])
  t.equal(await read('a.md'), 'mine')
  t.same(await send(['b.docx', docx('text')], ['b.md', 'mine'], ['b.docx.md', 'mine']), ['b.docx', 'b.md', 'b.docx.md'])
  t.equal(await read('b.md'), 'mine')
  t.equal(await read('b.docx.md'), 'mine')
  t.same(await names(), ['a.docx', 'a.docx.md', 'a.md', 'b.docx', 'b.docx.md', 'b.md'])
})

t.test('documents of one stem have a companion each, and one goes without the other', async (t) => {
  const { send, remove, names } = open(t)
  t.same(await send(['r.pdf', pdfOf([['pdf']])], ['r.docx', docx('word')]), [
    ['r.pdf', 'r.md'],
    ['r.docx', 'r.docx.md']
  ])
  await remove('r.docx')
  t.same(await names(), ['r.md', 'r.pdf'])
  await remove('r.pdf')
  t.same(await names(), [])
})

t.test('a companion is never written over a link, and never removed through one', async (t) => {
  const { send, folder, remove } = open(t)
  await send(['x.txt', 'keep'])
  await symlink('x.txt', join(folder, 'a.md'))
  t.same(await send(['a.docx', docx('text')]), [['a.docx', 'a.docx.md']])
  await remove('a.docx')
  t.same((await readdir(folder)).sort(), ['a.md', 'x.txt'])
})

t.test('names with brackets, of the longest kind, and renamed ones are told apart', async (t) => {
  const { send, read, folder } = open(t)
  const long = `${'ä'.repeat(125)}.docx`
  t.same(await send([long, docx('long')], ['x-->y.docx', docx('odd')]), [
    [long, `${'ä'.repeat(125)}.md`],
    ['x-->y.docx', 'x-->y.md']
  ])
  t.match(await read('x-->y.md'), /^<!-- Text of "x--\\u003ey.docx" -->\n/)
  t.same(await send([long, docx('longer')]), [[long, `${'ä'.repeat(125)}.md`]])
  await writeFile(join(folder, `${'ä'.repeat(125)}.md`), 'mine now')
  t.same(await send([long, docx('longest')]), [long], 'the other name would be too long')
  t.same(await send(['z.docx', docx('1')], ['z.docx', docx('2')]), [
    ['z.docx', 'z.md'],
    ['z_1.docx', 'z_1.md']
  ])
  t.match(await read('z_1.md'), /"z_1\.docx" -->\n\n2/)
})
