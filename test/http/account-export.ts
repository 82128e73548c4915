// What somebody is given who asks for everything that is kept of them.
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { openPromise } from 'yauzl'
import { command } from '../fixtures/child.ts'
import { upload } from '../fixtures/form.ts'
import { asked, openSite, signIn, textIn } from '../fixtures/gateway.ts'

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
    t.match(JSON.parse(members.get('account.json')!), { email })
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
  })
