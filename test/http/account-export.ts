// What somebody is given who asks for everything that is kept of them.
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { openPromise } from 'yauzl'
import { command } from '../fixtures/child.ts'
import { upload } from '../fixtures/form.ts'
import { asked, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'

/** Texts of an archive by name. */
async function membersOf(file: string): Promise<ReadonlyMap<string, string>> {
  const members = new Map<string, string>()
  const zip = await openPromise(file)
  for await (const entry of zip.eachEntry())
    members.set(entry.fileName, await text(await zip.openReadStreamPromise(entry)))
  return members
}

for (const events of ['db', 'jsonl'])
  t.test(`everything of one's own is in the archive, and nothing of others (events in ${events})`, async (t) => {
    const site = await openSite(t, { config: { run_events: { backend: events } } })
    const [ann, ben] = [await signIn(site, 'ann'), await signIn(site, 'ben')]
    const [hers, his] = [await ann.thread(), await ben.thread()]
    await ann.post(`/api/threads/${hers}/runs/wait`, asked('What about Zürich? <b>'))
    await ben.post(`/api/threads/${his}/runs/wait`, asked('my own secret'))
    const said = [{ values: { messages: [{ role: 'user', content: 'Said elsewhere' }] }, as_node: 'agent' }]
    const imported = textIn((await ann.post('/api/threads', { supersteps: [{ updates: said }] })).body, 'thread_id')
    const [run] = listIn((await ann.get(`/api/threads/${hers}/runs`)).body)
    const rated = { body: { rating: 1, comment: 'just so' } }
    await ann.ask('PUT', `/api/threads/${hers}/runs/${textIn(run, 'run_id')}/feedback`, rated)
    await upload(ann, hers, [['notes.txt', 'twelve']])
    await ann.ask('PUT', '/api/store/items', { body: { namespace: ['a'], key: 'k', value: { kept: true } } })
    const account = (await ann.get('/api/v1/auth/me')).body
    const email = textIn(account, 'email')

    const answer = await fetch(`${site.url}/api/v1/auth/export`, { headers: ann.headers() })
    t.equal(answer.headers.get('content-type'), 'application/zip')
    t.equal(answer.headers.get('content-disposition'), 'attachment; filename="colloquy-export.zip"')
    const byRoute = join(site.home, 'route.zip')
    writeFileSync(byRoute, Buffer.from(await answer.arrayBuffer()))
    const members = await membersOf(byRoute)
    t.match(JSON.parse(members.get('account.json')!), { email, sessions: [{ address: '127.0.0.1' }] })
    const stateOf = (thread: string): unknown => JSON.parse(members.get(`threads/${thread}/state.json`)!)
    t.match(stateOf(imported), { messages: [{ content: 'Said elsewhere' }] }, 'what no run has said')
    t.match(stateOf(hers), { messages: [{ type: 'human' }, { type: 'ai' }] })
    t.match(JSON.parse(members.get(`threads/${hers}/thread.json`)!), { feedback: [{ rating: 1, comment: 'just so' }] })
    t.match(JSON.parse(members.get(`threads/${hers}/thread.json`)!), { thread_id: hers, runs: [{ status: 'success' }] })
    const types = (JSON.parse(members.get(`threads/${hers}/messages.json`)!) as { content: { type: string } }[]).map(
      ({ content }) => content.type
    )
    t.strictSame(types, ['human', 'ai'])
    t.match(members.get(`threads/${hers}/conversation.md`), /^## You, .*\n\nWhat about Zürich\? <b>$/m)
    t.match(JSON.parse(members.get('items.json')!), [{ key: 'k' }])
    t.equal(members.get([...members.keys()].find((name) => name.endsWith('/uploads/notes.txt'))!), 'twelve')
    const all = [...members].flat().join('\n')
    t.notMatch(all, /my own secret/)
    t.notMatch(all, /password_hash|"digest"/)
    t.notOk(all.includes(his))

    const file = join(site.home, 'command.zip')
    t.match(await command(site.home, 'user', 'export', email, file), { code: 0 })
    t.equal(statSync(file).mode & 0o777, 0o600)
    t.strictSame([...(await membersOf(file)).keys()], [...members.keys()], 'by the command too')
    t.not((await command(site.home, 'user', 'export', email, file)).code, 0, 'no file is overwritten')
    const { out } = await command(site.home, 'audit', '--action', 'account_exported', '--json')
    const lines = out
      .trim()
      .split('\n')
      .map((line): unknown => JSON.parse(line))
    const target = `user:${textIn(account, 'id')}`
    t.match(lines, [
      { actor: 'operator', target, address: null },
      { actor: target, target, address: '127.0.0.1' }
    ])
    t.equal(lines.length, 2, 'what was refused is no export')
  })

t.test(
  'of a graph its state is in the archive, as far as it is JSON, and not how the graph leads itself',
  async (t) => {
    const { site, person } = await graphSite(t)
    const thread = await person.thread()
    const body = { assistant_id: 'agent', input: { messages: [{ role: 'user', content: 'For the archive' }] } }
    t.equal((await person.post(`/api/threads/${thread}/runs/wait`, body)).status, 200)
    const answer = await fetch(`${site.url}/api/v1/auth/export`, { headers: person.headers() })
    const file = join(site.home, 'graph.zip')
    writeFileSync(file, Buffer.from(await answer.arrayBuffer()))
    const state = (await membersOf(file)).get(`threads/${thread}/state.json`)!
    t.match(state, /For the archive/)
    t.notMatch(Object.keys(JSON.parse(state) as object).join(), /__|branch:/)
  }
)
