// The extensions file: tool servers have secrets, which are encrypted where there is a key for that.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
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
