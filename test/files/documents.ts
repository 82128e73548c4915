// Documents: their texts as Markdown, and that a hostile one costs nothing but its own text.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Documents, type DocumentLimits } from '../../lib/files/documents.ts'
import { docxOf, paragraph, pdfBomb, pdfOf, pptxOf, xlsxOf } from '../fixtures/documents.ts'
import { zipOf } from '../fixtures/zip.ts'

const open = (t: Test, limits: Partial<DocumentLimits> = {}) => {
  const failed: [string, string][] = []
  const documents = new Documents({ onFailed: ({ name }, reason) => void failed.push([name, reason]), limits })
  t.teardown(() => documents.stop())
  const folder = t.testdir()
  let files = 0
  const texts = async (given: Record<string, Buffer | string>, owner = 'u') => {
    const drafts = Object.entries(given).map(async ([name, content]) => {
      const path = join(folder, String(files++))
      await writeFile(path, content)
      return { path, name, size: Buffer.byteLength(content) }
    })
    return documents.texts(await Promise.all(drafts), owner)
  }
  return {
    documents,
    failed,
    texts,
    text: async (name: string, content: Buffer) => (await texts({ [name]: content }))[0]
  }
}

t.test('a PDF is its pages; a page without words is left out', async (t) => {
  const { text } = open(t)
  const pdf = pdfOf([['Hello PDF', 'second line'], [], ['the end']])
  t.equal(await text('a.PDF', pdf), '## Page 1\n\nHello PDF\nsecond line\n\n## Page 3\n\nthe end\n')
})

t.test('a text document is its headings, paragraphs, lists and tables', async (t) => {
  const { text } = open(t)
  const cell = (words: string) => `<w:tc>${words}</w:tc>`
  const item = '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p>'
  const nested = `<w:tbl><w:tr>${cell(paragraph('in'))}${cell(paragraph('side'))}</w:tr></w:tbl>`
  const docx = docxOf(`
    ${paragraph('Report', 'Title')}${paragraph('First', 'Heading2')}
    <w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three &lt;&amp;&#x20ac;&unknown;</w:t><w:delText>gone</w:delText></w:r></w:p>
    <w:p/>${item}${item}
    <w:tbl><w:tr>${cell(paragraph('A|B'))}${cell(paragraph('x') + paragraph('y'))}</w:tr><w:tr>${cell(nested)}${cell('<w:p/>')}</w:tr></w:tbl>
    <mc:AlternateContent><mc:Choice>${paragraph('box')}</mc:Choice><mc:Fallback>${paragraph('box')}</mc:Fallback></mc:AlternateContent>
    <!-- <w:p><w:t>hidden</w:t></w:p> --><w:p><w:r><w:t><![CDATA[a < b]]></w:t></w:r></w:p>`)
  t.equal(
    await text('a.docx', docx),
    `# Report

## First

one\ttwo
three <&€&unknown;
- item
- item

| A\\|B | x y |
| --- | --- |
| in side |  |

box

a < b
`
  )
})

t.test('a workbook is its sheets under their names, with texts, dates and gaps', async (t) => {
  const { text } = open(t)
  const shared = ['<t>Name</t>', '<r><t>A</t></r><r><t>da</t></r><rPh><t>eida</t></rPh>']
  const first = `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>Born</t></is></c></row>
    <row r="2"/><row r="3"><c r="A3" t="s"><v>1</v></c><c r="B3" t="b"><v>1</v></c><c r="C3" s="1"><v>45322.5</v></c>
    <c s="2"><v>45322</v></c><c r="E3" s="3"><f>1+1</f><v>2</v></c><c r="F3" t="s"><v>99</v></c></row>`
  const book = xlsxOf(
    [
      { name: 'People &amp; more', rows: first },
      { name: 'Empty', rows: '' },
      { name: 'Last', rows: '<row><c t="str"><v>x</v></c></row>' }
    ],
    shared
  )
  t.equal(
    await text('a.xlsx', book),
    `## People & more

| Name |  | Born |
| --- | --- | --- |
| Ada | TRUE | 2024-01-31 12:00:00 | 2024-01-31 | 2 |  |

## Empty

## Last

| x |
| --- |
`
  )
})

t.test('slides stand in the order in which they are shown', async (t) => {
  const { text } = open(t)
  t.equal(await text('a.pptx', pptxOf(['one', 'two'])), '## Slide 1\n\none\n\n## Slide 2\n\ntwo\n')
})

t.test('texts come in the order of the files; what is no document or of an old format has none', async (t) => {
  const { texts, failed } = open(t)
  const given = { 'a.txt': 'plain', 'b.docx': docxOf(paragraph('two')), 'c.doc': 'old', 'd.pdf': pdfOf([['three']]) }
  t.same(await texts(given), [null, 'two\n', null, '## Page 1\n\nthree\n'])
  t.same(failed, [])
})

t.test('what cannot be read has no text, and the reason is told', async (t) => {
  const { texts, failed } = open(t, { sizeMax: 100_000 })
  const given = {
    'no.pdf': 'not a PDF',
    'cut.pdf': pdfOf([['x']]).subarray(0, 40),
    'empty.docx': '',
    'no.docx': 'PK\x03\x04 nothing',
    'other.docx': xlsxOf([]),
    'silent.pdf': pdfOf([[]]),
    'locked.docx': zipOf([{ name: 'word/document.xml', data: 'x', encrypted: true }]),
    'huge.pdf': Buffer.alloc(100_001)
  }
  t.same(
    await texts(given),
    Object.keys(given).map(() => null)
  )
  t.same(failed.map(([name]) => name).sort(), Object.keys(given).sort())
  for (const [name, reason] of failed) t.match(reason, /\w/, name)
})

t.test('a text has no characters that make a binary file of it, and is cut at two million', async (t) => {
  const { text } = open(t)
  t.equal(await text('a.docx', docxOf(paragraph('a\0b&#0;c&#xd800;d\u001be'))), 'abc\ufffdde\n')
  const long = await text('b.docx', docxOf(paragraph('0123456789'.repeat(100)).repeat(3000)))
  t.ok((long?.length ?? 0) < (2 << 20) + 200)
  t.match(long, /The rest of its text was left out\.\]\n$/)
  const wide = `<row r="1">${'<c r="XFD1"><v>1</v></c>'.repeat(2)}</row>`.repeat(1000)
  t.match((await text('c.xlsx', xlsxOf([{ name: 'wide', rows: wide }])))?.slice(-80), /left out/)
})

t.test('a document that unpacks to more than its reader may have ends the reader and nothing else', async (t) => {
  const { texts, failed } = open(t, { memoryBytes: 200 << 20 })
  const before = process.memoryUsage.rss()
  const words = '<w:t>word</w:t>'
  const bombs = {
    'a.pdf': pdfBomb(600 << 20),
    'b.docx': docxOf(words.repeat(1 << 22).slice(0, 60 << 20)),
    'c.docx': docxOf(words.repeat(1 << 23).slice(0, 70 << 20)),
    'd.xlsx': zipOf([{ name: 'xl/workbook.xml', data: '<workbook/>', claims: 2 ** 31 }])
  }
  const good = texts({ 'good.docx': docxOf(paragraph('good')) }, 'somebody else')
  t.same(await texts(bombs), [null, null, null, null])
  t.same(await good, ['good\n'])
  t.match(new Map(failed).get('a.pdf'), /too much memory/)
  t.match(new Map(failed).get('c.docx'), /too large/)
  t.ok(process.memoryUsage.rss() - before < 800 << 20)
})

t.test('one that takes too long is ended in time, and who waits behind it too; others have their turn', async (t) => {
  const { texts, failed } = open(t, { timeoutMs: 8000 })
  // Every piece is small and the output nothing: only time ends it.
  const endless = docxOf(`<w:t>${'<w:p/>'.repeat(10_000_000)}</w:t>`)
  const begun = performance.now()
  const slow = texts({ 'a.docx': endless, 'b.docx': endless, 'c.docx': docxOf(paragraph('late')) }, 'patient')
  t.same(await texts({ 'd.docx': docxOf(paragraph('quick')) }, 'other'), ['quick\n'])
  t.equal((await slow).length, 3)
  t.ok(performance.now() - begun < 80_000)
  t.ok(
    failed.every(([, reason]) => /too long|no text/.test(reason)),
    JSON.stringify(failed)
  )
})

t.test('a reader whose gateway is gone ends, wherever it is', async (t) => {
  const path = join(t.testdir(), 'a.docx')
  await writeFile(path, docxOf(`<w:t>${'<w:p/>'.repeat(10_000_000)}</w:t>`))
  const guard = fileURLToPath(new URL('../../lib/files/document/guard.js', import.meta.url))
  const child = spawn(process.execPath, [guard, path, 'docx', String(2 ** 40)], {
    stdio: ['pipe', 'ignore', 'inherit']
  })
  const exit = once(child, 'exit')
  setTimeout(() => child.stdin.destroy(), 700)
  t.same(await exit, [null, 'SIGKILL'])
})

t.test('closing ends all readers at once', async (t) => {
  const { documents, texts, failed } = open(t)
  const reading = texts({ 'a.docx': docxOf(`<w:t>${'<w:p/>'.repeat(5_000_000)}</w:t>`), 'b.pdf': pdfOf([['x']]) })
  setTimeout(() => documents.stop(), 300)
  t.same(await reading, [null, null])
  t.equal(failed.length, 2)
  const processes = execFileSync('ps', ['-eo', 'ppid,args'], { encoding: 'utf8' })
  t.notMatch(processes, new RegExp(`^ *${process.pid} .*document/guard`, 'm'))
})
