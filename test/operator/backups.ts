// What the operator's document says about copies: its blocks run as they stand there, but for paths, and what they have saved comes back.
import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Options as SCHEMA } from '../../lib/config/options.ts'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { command } from '../fixtures/child.ts'
import { upload } from '../fixtures/form.ts'
import { asked, homeOf, openSite, type Options, type Person, signIn } from '../fixtures/gateway.ts'
import { oldPostgres, oldSqlite, POSTGRES_STEPS, SQLITE_STEPS } from '../fixtures/old-schema.ts'
import { OwnServer } from '../fixtures/postgres.ts'

const TEXT = readFileSync(new URL('../../../bin/README.md', import.meta.url), 'utf8')
/** A schema of long ago. */
const OLD = 8

/** The document from these words to the next title. */
function textFrom(words: string): string {
  const [, text] = TEXT.split(words)
  if (text === undefined) throw new Error(`bin/README.md does not say ${words}`)
  return text.split(/^#{2,3} /m)[0]!
}

/** The lines of the first block of shell in a text. */
function linesIn(text: string): readonly string[] {
  const block = /```sh\n([\s\S]*?)```/.exec(text)?.[1]
  if (block === undefined) throw new Error('there is no block of shell')
  return block.trim().split('\n')
}

/** Runs a line in a folder. `programs`: a folder of programs that come before those of the PATH. */
async function shell(line: string, folder: string, env: Readonly<Record<string, string>> = {}, programs?: string) {
  const path = [programs, process.env.PATH].filter(Boolean).join(delimiter)
  await promisify(execFile)('bash', ['-euc', line], { cwd: folder, env: { ...env, PATH: path } })
}

/** Something of everything that is to come back. */
async function lived(person: Person): Promise<string> {
  const thread = await person.thread()
  await upload(person, thread, [['note.txt', 'kept']])
  await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))
  return thread
}

async function isBack(t: Test, person: Person, thread: string): Promise<void> {
  const messages = await person.get(`/api/threads/${thread}/messages`)
  t.equal(messages.status, 200, 'the session is valid, and the thread is there')
  t.match(messages.body, { length: 2 })
  t.equal((await person.get(`/api/threads/${thread}/artifacts/mnt/user-data/uploads/note.txt`)).text, 'kept')
  const { status } = await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))
  t.equal(status, 200, 'and it goes on')
}

/** As the document says: the copy in the place of the file, and nothing of the log. */
function putBack(copy: string, file: string): void {
  copyFileSync(copy, file)
  for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true })
}

// ------------------------------------------------------------------------------------------------ SQLite

const hasSqlite = (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'sqlite3')))

t.test(
  'SQLite: the copy made beside a running server comes back, with its files, on another machine',
  { skip: hasSqlite ? false : 'there is no sqlite3' },
  async (t) => {
    const [home, copies, other] = [homeOf(t), homeOf(t), homeOf(t)]
    const site = await openSite(t, { home })
    const person = await signIn(site)
    const thread = await lived(person)
    const text = textFrom('### Copies by other programs\n')
    for (const line of linesIn(text))
      await shell(line.replaceAll('/var/lib/colloquy', home).replaceAll('/backup/', `${copies}/`), copies)
    const later = await lived(person)
    await site.stop()

    const [database, files] = ['.db', '.tar.gz'].map((end) => readdirSync(copies).find((name) => name.endsWith(end)))
    for (const name of ['data/colloquy.db', 'colloquy.db-wal', 'colloquy.db-shm']) t.match(text, `\`${name}\``)
    mkdirSync(join(other, 'data'))
    putBack(join(copies, database!), join(other, 'data', 'colloquy.db'))
    await shell(`tar -xzf ${join(copies, files!)}`, other)
    person.url = (await openSite(t, { home: other })).url
    await isBack(t, person, thread)
    t.equal((await person.get(`/api/threads/${later}`)).status, 404, 'what came after the copy is lost')
  }
)

t.test('SQLite: the copy that an upgrade leaves has the name that the document says, and puts it back', async (t) => {
  const text = textFrom('### Upgrade and rollback\n')
  const name = /`(colloquy\.db\.schema-N\.TIME\.bak)`/.exec(text)?.[1] ?? ''
  const written = new RegExp(`^${name.replaceAll('.', '\\.').replace('N', `${OLD}`).replace('TIME', '\\d+')}$`)
  const home = homeOf(t)
  const folder = join(home, 'data')
  const file = join(folder, 'colloquy.db')
  mkdirSync(folder)
  oldSqlite(file, OLD).close()
  const site = await openSite(t, { home })
  await signIn(site)
  await site.stop()
  const copies = readdirSync(folder).filter((one) => written.test(one))
  t.equal(copies.length, 1, `one of ${readdirSync(folder)}`)

  const versionOf = () => {
    const db = new Sqlite(file, { readonly: true })
    const [version, users] = ['SELECT max(version) FROM migrations', 'SELECT count(*) FROM users'].map((sql) =>
      db.prepare(sql).pluck().get()
    )
    db.close()
    return { version, users }
  }
  t.strictSame(versionOf(), { version: SQLITE_STEPS.length, users: 1 })
  putBack(join(folder, copies[0]!), file)
  t.strictSame(versionOf(), { version: OLD, users: 0 }, 'as the older version has left it')
  await signIn(await openSite(t, { home }))
  t.strictSame(versionOf(), { version: SQLITE_STEPS.length, users: 1 }, 'and the next upgrade is one as the first')
})

// -------------------------------------------------------------------------------------------- PostgreSQL

/** Programs of a PostgreSQL that has its server beside them: pg_dump refuses a server that is newer than itself. */
function installedPostgres(): string | null {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort().reverse() : []
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter)
  ]
  const needed = ['initdb', 'postgres', 'psql', 'pg_dump', 'pg_restore']
  return folders.find((folder) => needed.every((name) => existsSync(join(folder, name)))) ?? null
}

const programs = installedPostgres()

t.test(
  'PostgreSQL: what the block of the document has saved comes back',
  { skip: programs ? false : 'there is no PostgreSQL with pg_dump' },
  async (t) => {
    const server = await OwnServer.create(programs!)
    t.teardown(() => server.stop('SIGQUIT'))
    const [dump, ...restore] = linesIn(textFrom('**Backup and restore**'))
    /** A database of its own, and the block's two halves on it. */
    const placeOf = (t: Test, name: string) => {
      const url = server.url.replace(/\w+$/, name)
      const folder = homeOf(t)
      const run = (line: string) => shell(line, folder, { DATABASE_URL: url }, programs!)
      return {
        url,
        save: () => run(dump!),
        putBack: async () => {
          for (const line of restore) await run(line)
        }
      }
    }

    await t.test('saved while everything runs, twice', async (t) => {
      const { url, save, putBack } = placeOf(t, 'chat')
      const config: Options = { database: { backend: 'postgres', postgres_url: url } }
      const home = homeOf(t)
      let site = await openSite(t, { home, config })
      const person = await signIn(site)
      // The second time the schema is the one that the first has made.
      for (const time of ['once', 'again']) {
        const thread = await lived(person)
        await save()
        const later = await lived(person)
        await site.stop()
        await putBack()
        site = await openSite(t, { home, config })
        person.url = site.url
        await isBack(t, person, thread)
        t.equal((await person.get(`/api/threads/${later}`)).status, 404, `what came after the copy is lost, ${time}`)
      }
    })

    await t.test('saved before an upgrade: it is rolled back, and the next upgrade is one as the first', async (t) => {
      const { url, save, putBack } = placeOf(t, 'old')
      const versionsOf = async (before: (line: PgConnection) => Promise<void> = async () => {}) => {
        const line = await PgConnection.open(url)
        await before(line)
        const [row] = await line.rows<{ version: number }>('SELECT max(version) AS version FROM migrations')
        await line.close()
        return row?.version
      }
      const line = await PgConnection.open(server.url)
      await line.rows("CREATE DATABASE old ENCODING 'UTF8' TEMPLATE template0")
      await line.close()
      t.equal(await versionsOf((line) => oldPostgres(line, OLD)), OLD)
      await save()
      for (const upgrade of ['the first', 'the next']) {
        await (await openPostgresStore(url)).close()
        t.equal(await versionsOf(), POSTGRES_STEPS.length, upgrade)
        await putBack()
        t.equal(await versionsOf(), OLD)
      }
    })
  }
)

// --------------------------------------------------------------------------------- what the sentences name

/** The names in the first cells of the table below this head. */
function firstCells(head: string): string[] {
  const rows = TEXT.slice(TEXT.indexOf(head)).split('\n\n')[0]!.split('\n').slice(2)
  return rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name))
}

/** Whether the schema has an entry of this name: `models[].name` is one of each model. */
function isOption(name: string): boolean {
  interface Shape {
    readonly wrapped?: Shape
    readonly item?: Shape
    readonly entries?: Readonly<Record<string, Shape>>
  }
  const inside = (shape: Shape): Shape =>
    shape.wrapped ? inside(shape.wrapped) : shape.item ? inside(shape.item) : shape
  // Whatever kind of schema it is, what it has of these is of that type.
  let at: Shape | undefined = SCHEMA as Shape
  for (const part of name.replaceAll('[]', '').split('.')) at = at && inside(at).entries?.[part]
  return at !== undefined
}

t.test(
  'every option in the table of the document is one, and so is each that its sections on copies name',
  async (t) => {
    const names = firstCells('| Option | Variable |')
    t.ok(names.length > 70, `${names.length}`)
    t.strictSame(
      names.filter((name) => !isOption(name)),
      []
    )
    const sections = ['### Copies by other programs\n', '### What is deleted\n', '### Upgrade and rollback\n']
      .map(textFrom)
      .join()
    const named = [...sections.matchAll(/`([a-z]+\.[a-z_]+)`/g)].map(([, name = '']) => name)
    t.ok(named.includes('database.migration_backup'))
    t.strictSame(
      named.filter((name) => !isOption(name) && !name.startsWith('colloquy.db')),
      []
    )
  }
)

t.test(
  'every command that the document names is one, with its flags, and every one there is stands in it',
  async (t) => {
    const home = homeOf(t)
    const { out } = await command(home, '--help')
    const known = [...out.matchAll(/^ {2}([a-z-]+(?: [a-z]+)?) {2,}/gm)].map(([, name = '']) => name)
    t.ok(known.includes('prune') && known.includes('jobs retry'), known.join())
    const table = firstCells('| Command | What it does |').flatMap((cell) => {
      const [, first = '', others] = /^colloquy ([a-z-]+)( [a-z]+(?:, [a-z]+)*)?/.exec(cell) ?? []
      return others ? others.split(',').map((word) => `${first} ${word.trim()}`) : [first]
    })
    t.strictSame(table.sort(), [...known].sort())
    const inText = [...TEXT.matchAll(/`colloquy ([a-z-]+(?: [a-z]+)?)(?: (--[a-z]+))?`/g)]
    for (const [said, name = '', flag] of inText) {
      t.ok(known.includes(name), said)
      if (flag) t.match((await command(home, ...name.split(' '), '--help')).out, flag, said)
    }
  }
)
