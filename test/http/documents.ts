// What users upload reaches the agent: the text of documents and the images, over HTTP, from the form to the model's prompt.
import t from 'tap'
import { docxOf, paragraph, pdfOf, xlsxOf } from '../fixtures/documents.ts'
import { upload } from '../fixtures/form.ts'
import { asked, at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'

const UPLOADS = '/mnt/user-data/uploads'
const GIF = Buffer.from('GIF89a\x01\0\x01\0', 'latin1')

t.test('an uploaded document is answered with its text beside it, and both are deleted as one', async (t) => {
  const site = await openSite(t, { config: { uploads: { auto_convert_documents: 'yes' } } })
  const person = await signIn(site)
  const thread = await person.thread()
  const answer = await upload(person, thread, [
    ['the plan.docx', docxOf(paragraph('The plan is good'))],
    ['broken.pdf', 'no PDF at all']
  ])
  const path = `${UPLOADS}/the plan.md`
  const [plan, broken] = listIn(answer.body, 'files')
  t.match(plan, {
    filename: 'the plan.docx',
    markdown_file: 'the plan.md',
    markdown_path: path,
    markdown_virtual_path: path,
    markdown_artifact_url: `/api/threads/${thread}/artifacts${UPLOADS}/the%20plan.md`
  })
  t.strictSame(Object.keys(broken as object), ['filename', 'size', 'path', 'virtual_path', 'artifact_url'])
  t.match(
    site.logged.filter(([level]) => level === 'warn').map(([, fields]) => fields),
    [{ extension: '.pdf', reason: /PDF/ }]
  )
  t.match((await person.get(textIn(plan, 'markdown_artifact_url'))).text, /The plan is good/)
  const names = async () =>
    listIn((await person.get(`/api/threads/${thread}/uploads/list`)).body, 'files').map((one) => at(one, 'filename'))
  t.strictSame(await names(), ['broken.pdf', 'the plan.docx', 'the plan.md'])
  await person.ask('DELETE', `/api/threads/${thread}/uploads/${encodeURIComponent('the plan.docx')}`)
  t.strictSame(await names(), ['broken.pdf'])
})

t.test('without the option a document has no text beside it', async (t) => {
  const person = await signIn(await openSite(t))
  const { body } = await upload(person, await person.thread(), [['a.docx', docxOf(paragraph('x'))]])
  t.equal(at(listIn(body, 'files')[0], 'markdown_file'), undefined)
})

t.test('while a document is read everybody else is served', async (t) => {
  const person = await signIn(await openSite(t, { config: { uploads: { auto_convert_documents: true } } }))
  let isRead = false
  const slow = docxOf(`<w:t>${'<w:p/>'.repeat(5_000_000)}</w:t>`)
  const uploading = upload(person, await person.thread(), [['slow.docx', slow]]).finally(() => {
    isRead = true
  })
  let served = 0
  while (!isRead) {
    t.equal((await person.get('/health')).status, 200)
    served++
  }
  t.equal((await uploading).status, 200)
  t.ok(served > 20, `${served} requests`)
})

t.test('text, documents and images reach the model, and no byte of an image the log or the state', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const main = { name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none', supports_vision: true }
  const site = await openSite(t, {
    config: {
      models: [main],
      uploads: { auto_convert_documents: true },
      title: { enabled: false },
      memory: { enabled: false },
      run_events: { max_trace_content: 1_000_000 }
    }
  })
  const person = await signIn(site)
  const thread = await person.thread()
  await upload(person, thread, [
    ['note.txt', 'a plain note'],
    ['figures.xlsx', xlsxOf([{ name: 'Figures', rows: '<row><c><v>4711</v></c></row>' }])],
    ['letter.pdf', pdfOf([['Dear reader']])],
    ['dot.gif', GIF]
  ])
  const call = (name: string, path: string) => ({ name, args: JSON.stringify({ path: `${UPLOADS}/${path}` }) })
  const calls = [
    [call('read_file', 'note.txt'), call('read_file', 'figures.md'), call('read_file', 'letter.md')],
    [call('view_image', 'dot.gif')]
  ]
  const run = await person.post(
    `/api/threads/${thread}/runs/wait`,
    asked(scripted({ calls, text: 'read', strict: true }))
  )
  t.equal(run.status, 200)
  const last = model.requests.at(-1)!.messages
  t.match(JSON.stringify(last[0]), /letter\.pdf \(\d+ bytes; its text: \/mnt\/user-data\/uploads\/letter\.md\)/)
  for (const words of ['a plain note', '| 4711 |', 'Dear reader']) t.ok(JSON.stringify(last).includes(words), words)
  t.match(last.at(-1), {
    role: 'user',
    content: [
      { text: `${UPLOADS}/dot.gif:` },
      { image_url: { url: `data:image/gif;base64,${GIF.toString('base64')}` } }
    ]
  })
  const state = await person.get(`/api/threads/${thread}/state`)
  t.match(state.body, { values: { viewed_images: { [`${UPLOADS}/dot.gif`]: { mime_type: 'image/gif' } } } })
  t.notMatch(state.text, GIF.toString('base64'))
  const [{ run_id } = { run_id: '' }] = listIn((await person.get(`/api/threads/${thread}/runs`)).body) as {
    run_id: string
  }[]
  const events = (await person.get(`/api/threads/${thread}/runs/${run_id}/events?limit=1000`)).text
  t.notMatch(events, GIF.toString('base64'))
  t.match(events, `data:image/gif;base64,[${GIF.toString('base64').length} characters]`)
})
