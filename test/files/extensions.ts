// The extensions file: tool servers have secrets, which are encrypted where there is a key for that.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { Extensions } from '../../lib/files/extensions.ts'
import { Paths } from '../../lib/files/paths.ts'
import { Memories } from '../../lib/memory/memories.ts'
import { command } from '../fixtures/child.ts'
import { configFile, homeOf, openSite, PASSWORD, Person } from '../fixtures/gateway.ts'

const SECRET = 'sentinel-of-a-tool-server'
const KEY = 'a key of at least thirty-two bytes'
const server = { type: 'stdio', command: 'npx', args: ['-y', 'a-package'], env: { A_KEY: SECRET }, enabled: false }

t.test(
  'with a key tool servers are encrypted in the home, also those that were plain, and used as before',
  async (t) => {
    const home = homeOf(t)
    const file = join(home, 'extensions_config.json')
    writeFileSync(file, JSON.stringify({ mcpServers: { old: server }, skills: { one: { enabled: false } } }))
    const config = { mcp: { secrets_key: KEY } }
    const site = await openSite(t, { home, config })
    const text = () => readFileSync(file, 'utf8')
    t.notMatch(text(), SECRET)
    t.notMatch(text(), 'a-package')
    t.match(JSON.parse(text()), { mcpServers: {}, sealed: /^[\w-]+\.\./, skills: { one: { enabled: false } } })
    const boss = new Person(site.url)
    await boss.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
    const put = await boss.ask('PUT', '/api/mcp/config', {
      body: { mcp_servers: { old: { ...server, env: { A_KEY: '***' } }, new: server } }
    })
    t.equal(put.status, 200, put.text)
    t.notMatch(text(), SECRET)
    await site.stop()
    const again = await openSite(t, { home, config })
    boss.url = again.url
    t.match((await boss.get('/api/mcp/config')).body, { mcp_servers: { old: { env: { A_KEY: '***' } }, new: {} } })
    writeFileSync(file, JSON.stringify({ ...JSON.parse(text()), mcpServers: { hand: server } }))
    const saved = join(homeOf(t), 'all.zip')
    t.match(await command(home, 'backup', saved), { code: 0 })
    const other = homeOf(t)
    configFile(other)
    t.match(await command(other, 'restore', saved), { code: 0 })
    const restored = readFileSync(join(other, 'extensions_config.json'), 'utf8')
    t.match(JSON.parse(restored), { mcpServers: { hand: { env: {} } }, sealed: String })
    t.notMatch(restored, SECRET, 'no backup has a secret that was added by hand')
    t.match(await command(home, 'config', 'show'), { code: 0, out: /secrets_key: "?\*\*\*/ })
    await again.stop()
    const third = await openSite(t, { home, config })
    boss.url = third.url
    t.match((await boss.get('/api/mcp/config')).body, { mcp_servers: { old: {}, new: {}, hand: {} } })
    t.notMatch(text(), SECRET, 'and what was added by hand is encrypted too')
    await third.stop()

    await t.rejects(openSite(t, { home }), { message: /are encrypted: set mcp.secrets_key/ })
    const wrong = { mcp: { secrets_key: `another ${KEY}` } }
    await t.rejects(openSite(t, { home, config: wrong }), { message: /is not the one/ })
    t.rejects(openSite(t, { home, config: { mcp: { secrets_key: 'short' } } }), { message: /fewer than 32 bytes/ })
  }
)

t.test('what two processes change at once in one home is all there, of skills and of memories', async (t) => {
  const home = homeOf(t)
  const script = `
    const [{ Extensions }, { Memories }, { Paths }] = await Promise.all([
      import('${new URL('../../lib/files/extensions.js', import.meta.url)}'),
      import('${new URL('../../lib/memory/memories.js', import.meta.url)}'),
      import('${new URL('../../lib/files/paths.js', import.meta.url)}')
    ])
    const [home, name] = process.argv.slice(1)
    const extensions = new Extensions(home)
    const memories = new Memories(new Paths(home), { storagePath: '' })
    for (let n = 0; n < 20; n++) {
      await extensions.change((file) => ({ ...file, skills: { ...file.skills, [name + n]: { enabled: false } } }))
      await memories.change({ userId: 'ann', agentName: null }, (memory) => {
        const fact = { id: name + n, content: 'x', category: 'context', confidence: 1, createdAt: '', source: 'manual' }
        return { ...memory, facts: [...memory.facts, fact] }
      })
    }`
  const run = promisify(execFile)
  const begin = (name: string) => run(process.execPath, ['--input-type=module', '-e', script, home, name])
  await Promise.all(['a', 'b'].map(begin))
  t.equal(Object.keys((await new Extensions(home).read()).skills).length, 40)
  const memory = await new Memories(new Paths(home), { storagePath: '' }).read({ userId: 'ann', agentName: null })
  t.equal(memory.facts.length, 40)
})
