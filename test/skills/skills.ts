// Skills: what may be installed, what an edit leaves behind, and what an agent may read.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Extensions } from '../../lib/files/extensions.ts'
import { readHead, Skills } from '../../lib/skills/skills.ts'
import { type ZipMember, zipOf } from '../fixtures/zip.ts'

const md = (name: string, text = 'Do it well.', description = 'For tests') =>
  `---\nname: ${name}\ndescription: ${description}\nlicense: MIT\n---\n\n# ${name}\n\n${text}\n`

function open(t: Test) {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-skills-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const publicPath = join(home, 'public')
  mkdirSync(publicPath)
  const broken: string[] = []
  const skills = new Skills({
    home,
    publicPath,
    extensions: new Extensions(home),
    onBroken: (path) => broken.push(path)
  })
  const archive = (members: readonly ZipMember[]) => {
    const path = join(home, `${Math.random().toString(36).slice(2)}.skill`)
    writeFileSync(path, zipOf(members))
    return path
  }
  const folder = (name: string, content: string) => {
    mkdirSync(join(publicPath, name))
    writeFileSync(join(publicPath, name, 'SKILL.md'), content)
  }
  return { home, publicPath, skills, archive, folder, broken }
}

t.test('a skill is installed from its archive, with or without a folder around it', async (t) => {
  const { skills, archive } = open(t)
  t.match(
    await skills.install(
      archive([
        { name: 'x/SKILL.md', data: md('one') },
        { name: 'x/ref/a.txt', data: 'notes' }
      ])
    ),
    {
      name: 'one',
      license: 'MIT',
      category: 'custom',
      enabled: true
    }
  )
  t.match(await skills.install(archive([{ name: 'SKILL.md', data: md('two') }])), { name: 'two' })
  t.same(
    (await skills.list()).map(({ name }) => name),
    ['one', 'two']
  )
  t.equal(await skills.readFile('one', 'ref/a.txt'), 'notes')
  t.equal(await skills.install(archive([{ name: 'SKILL.md', data: md('two') }])), null, 'its name is taken')
})

t.test('two installs of one skill at once: one of them is taken', async (t) => {
  const { skills, archive } = open(t)
  const path = archive([{ name: 'SKILL.md', data: md('one') }])
  const results = await Promise.all([skills.install(path), skills.install(path), skills.install(path)])
  t.equal(results.filter((skill) => skill !== null).length, 1)
})

t.test('an archive that is no skill leaves nothing behind', async (t) => {
  const { skills, archive, home } = open(t)
  const bad: ZipMember[][] = [
    [],
    [{ name: 'readme.txt', data: 'x' }],
    [{ name: 'x/SKILL.md', data: '# no front matter' }],
    [{ name: 'x/SKILL.md', data: md('../evil') }],
    [{ name: 'x/SKILL.md', data: md('Upper') }],
    [{ name: 'x/SKILL.md', data: md('a'.repeat(65)) }],
    [{ name: 'x/SKILL.md', data: '---\nname: x\n---\n' }],
    [{ name: 'x/SKILL.md', data: '---\nname: [\n---\n' }],
    [{ name: 'x/SKILL.md', data: '---\nname: &a x\ndescription: *a\n---\n' }],
    [
      { name: 'x/SKILL.md', data: md('x') },
      { name: 'y/other.txt', data: 'x' }
    ],
    [
      { name: 'x/SKILL.md', data: md('x') },
      { name: '../evil', data: 'x' }
    ]
  ]
  for (const members of bad) await t.rejects(skills.install(archive(members)))
  t.same(await skills.list(), [])
  t.notOk(existsSync(join(home, 'skills', 'custom')))
  t.notOk(existsSync(join(home, 'skills', 'incoming')))
})

t.test('a switch is kept over a restart and beside the tool servers', async (t) => {
  const { skills, home, publicPath, folder } = open(t)
  folder('given', md('given'))
  await new Extensions(home).change((file) => ({ ...file, mcpServers: { one: { enabled: true } } }))
  t.match(await skills.enable('given', false), { enabled: false })
  const again = new Skills({ home, publicPath, extensions: new Extensions(home) })
  t.match(await again.get('given'), { category: 'public', enabled: false })
  t.same((await new Extensions(home).read()).mcpServers, { one: { enabled: true } })
  t.equal(await again.readFile('given', 'SKILL.md'), null, 'and is not read while it is off')
  t.equal(await skills.enable('none', true), null)
})

t.test('a custom skill hides the public one of its name; a broken folder is left out and told', async (t) => {
  const { skills, archive, folder, broken } = open(t)
  folder('both', md('both', '', 'given'))
  folder('wrong', md('another'))
  await skills.install(archive([{ name: 'SKILL.md', data: md('both', '', 'own') }]))
  t.match(await skills.list(), [{ name: 'both', description: 'own', category: 'custom' }])
  t.match(broken[0], /wrong/)
})

t.test('an edit keeps what was there before, and a rollback is an edit too', async (t) => {
  const { skills, archive } = open(t)
  await skills.install(archive([{ name: 'SKILL.md', data: md('one') }]))
  t.equal(await skills.edit('one', md('one', 'Do it better.')), true)
  t.match(await skills.content('one'), /better/)
  t.match(await skills.history('one'), [{ action: 'edit', content: /Do it well/ }])
  await t.rejects(skills.edit('one', md('two')), { name: 'SkillError' })
  await t.rejects(skills.edit('one', 'nonsense'), { name: 'SkillError' })
  t.equal(await skills.edit('none', md('none')), false)
  t.equal(await skills.history('none'), null)
  t.equal(await skills.remove('one'), true)
  t.equal(await skills.remove('one'), false)
  t.equal(await skills.content('one'), null)
})

t.test('of very many edits the newest are kept', async (t) => {
  const { skills, archive } = open(t)
  await skills.install(archive([{ name: 'SKILL.md', data: md('one') }]))
  for (let n = 0; n < 60; n++) await skills.edit('one', `${md('one')}${n}`)
  const history = (await skills.history('one')) ?? []
  t.equal(history.length, 50)
  t.match([history.at(0)?.content, history.at(-1)?.content], [/\D9$/, /\D58$/])
})

t.test('an agent reads files of the skill and nothing else', async (t) => {
  const { skills, publicPath, folder, home } = open(t)
  folder('given', md('given'))
  writeFileSync(join(home, 'secret'), 'secret')
  symlinkSync(join(home, 'secret'), join(publicPath, 'given', 'link'))
  for (const path of ['../secret', '..', '/etc/passwd', 'a\0b', '', '.', 'SKILL.md/', 'link', 'none', '..\\x'])
    t.equal(await skills.readFile('given', path), null, path)
  for (const name of ['..', 'given/..', 'none', '']) t.equal(await skills.readFile(name, 'SKILL.md'), null, name)
  t.match(await skills.readFile('given', 'SKILL.md'), /Do it well/)
})

t.test('front matter is read with either line ending, and a name is never a path', (t) => {
  t.match(readHead('\uFEFF---\r\nname: a-b\r\ndescription: " x "\r\n---\r\ntext'), {
    name: 'a-b',
    description: 'x',
    license: null
  })
  for (const name of ['a/b', '..', 'a b', '-a', 'a--b', 'A', '__proto__'])
    t.throws(() => readHead(`---\nname: ${name}\ndescription: x\n---\n`), { name: 'SkillError' }, name)
  t.end()
})

t.test('no draft of an installation is left over', async (t) => {
  const { skills, archive, home } = open(t)
  await skills.install(archive([{ name: 'SKILL.md', data: md('one') }]))
  t.same(readdirSync(join(home, 'skills', 'incoming')), [])
})

t.test('front matter has a length and a depth, which are known before it is parsed', (t) => {
  const head = (yaml: string) => `---\n${yaml}\n---\n`
  for (const unit of ['[', '{', '- ', '? ', ': ', '{a: ', 'a: [', '- [', '{[', '- - ']) {
    t.throws(() => readHead(head(unit.repeat(4_000 / unit.length))), /more than 32 levels/, `${unit} many times`)
    t.throws(
      () => readHead(head(unit.repeat(200_000 / unit.length))),
      /longer than 4096 characters/,
      `${unit} for long`
    )
  }
  const wordy = 'See [one](x), {two}, and - three - ? four: '.repeat(20)
  t.equal(readHead(head(`name: a\ndescription: ${JSON.stringify(wordy)}`)).description, wordy.trim())
  t.end()
})

t.test('front matter says nothing in the log of the process, whatever stands in it', async (t) => {
  const said: string[] = []
  const listen = (warning: Error) => said.push(warning.message)
  process.on('warning', listen)
  t.teardown(() => process.off('warning', listen))
  const rest = 'name: a\ndescription: b'
  for (const yaml of [`tag: !evil c\n${rest}`, `%FORGED line\n---\n${rest}`, `? [c]\n: d\n${rest}`]) {
    try {
      readHead(`---\n${yaml}\n---\n`)
    } catch (error) {
      t.match(error, { name: 'SkillError' })
    }
  }
  // Warnings are told in a later turn.
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(said, [])
})
