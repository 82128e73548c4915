// The extensions file: tool servers have secrets, which are encrypted where there is a key for that.
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { Extensions } from '../../lib/files/extensions.ts'
import { Paths } from '../../lib/files/paths.ts'
import { Memories } from '../../lib/memory/memories.ts'
import { Skills } from '../../lib/skills/skills.ts'
import { command } from '../fixtures/child.ts'
import { configFile, homeOf, openSite, PASSWORD, Person } from '../fixtures/gateway.ts'

const THREAD = '7b0c6f1e-3a52-4f0e-9d2b-6c1f0a9e8d37'
const COUNT = '/mnt/user-data/outputs/count.txt'
const skillText = (words: string) => `---\nname: counted\ndescription: Counts\n---\n${words}\n`

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

t.test('what two processes change at once in one home is all there, whatever has its file', async (t) => {
  const home = homeOf(t)
  const paths = new Paths(home)
  await paths.write(THREAD, 'ann', COUNT, '0')
  const skill = join(home, 'skills/custom/counted')
  mkdirSync(skill, { recursive: true })
  writeFileSync(join(skill, 'SKILL.md'), skillText('none'))
  const lib = new URL('../../lib/', import.meta.url)
  const script = `
    const [{ Extensions }, { Memories }, { Paths }, { Artifacts }, { Skills }, { createHash }] = await Promise.all([
      import('${lib}files/extensions.js'),
      import('${lib}memory/memories.js'),
      import('${lib}files/paths.js'),
      import('${lib}files/artifacts.js'),
      import('${lib}skills/skills.js'),
      import('node:crypto')
    ])
    const { readFileSync } = await import('node:fs')
    const [home, name] = process.argv.slice(1)
    const paths = new Paths(home)
    const extensions = new Extensions(home)
    const memories = new Memories(paths, { storagePath: '' })
    const artifacts = new Artifacts(paths)
    const skills = new Skills({ home, publicPath: null, extensions })
    const counted = await paths.locate('${COUNT}', '${THREAD}', 'ann')
    const countOn = async () => {
      const text = readFileSync(counted, 'utf8')
      const edit = { content: String(Number(text) + 1), expected: createHash('sha256').update(text).digest('hex'), maxBytes: 100 }
      if ((await artifacts.save('${THREAD}', 'ann', '${COUNT}', edit)) === 'changed') await countOn()
    }
    for (let n = 0; n < 20; n++) {
      await extensions.change((file) => ({ ...file, skills: { ...file.skills, [name + n]: { enabled: false } } }))
      await memories.change({ userId: 'ann', agentName: null }, (memory) => {
        const fact = { id: name + n, content: 'x', category: 'context', confidence: 1, createdAt: '', source: 'manual' }
        return { ...memory, facts: [...memory.facts, fact] }
      })
      await skills.edit('counted', ${JSON.stringify(skillText('@'))}.replace('@', name + n))
      await countOn()
    }`
  const run = promisify(execFile)
  const begin = (name: string) => run(process.execPath, ['--input-type=module', '-e', script, home, name])
  await Promise.all(['a', 'b'].map(begin))
  const extensions = new Extensions(home)
  t.equal(Object.keys((await extensions.read()).skills).length, 40)
  const memory = await new Memories(paths, { storagePath: '' }).read({ userId: 'ann', agentName: null })
  t.equal(memory.facts.length, 40)
  t.equal(
    readFileSync(await paths.locate(COUNT, THREAD, 'ann'), 'utf8'),
    '40',
    'of an artifact each one has saved what it had read'
  )
  const skills = new Skills({ home, publicPath: null, extensions })
  const before = (await skills.history('counted'))!.map(({ content }) => content)
  t.equal(
    new Set([...before, await skills.content('counted')]).size,
    41,
    'a skill has each of its texts once in its history'
  )
})
