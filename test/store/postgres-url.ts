// URLs of databases as people have them: from Neon, Prisma, libpq, through a pooler; and bad ones, each with a sentence.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { readUrl } from '../../lib/store/postgres/url.ts'
import { addThread } from '../contract/harness.ts'
import { createDatabase, migratedDatabase } from '../fixtures/postgres.ts'

async function freshUrl(t: Test, make = migratedDatabase): Promise<string> {
  const database = await make()
  t.teardown(() => database.remove())
  return database.url
}

/** The parameters of a start that PgBouncer knows; it refuses all others unless it is told to ignore them. */
const KNOWN = ['user', 'database', 'client_encoding', 'application_name', 'datestyle', 'timezone']

/** A pooler in session mode, as far as the start of a connection goes. */
async function openPooler(t: Test, url: string): Promise<{ url: string; refused: string[] }> {
  const target = new URL(url)
  const port = Number(target.port)
  const refused: string[] = []
  const server = createServer((client) => {
    client.on('error', () => {})
    client.once('data', (start) => {
      // A length, a version, then names and values, each with a zero behind it.
      const words = start.subarray(8).toString().split('\0')
      const names = words.filter((word, at) => at % 2 === 0 && word !== '')
      const strange = names.find((name) => !KNOWN.includes(name.toLowerCase()))
      if (strange !== undefined) {
        refused.push(strange)
        const fields = Buffer.from(`SFATAL\0C08P01\0Munsupported startup parameter: ${strange}\0\0`)
        const head = Buffer.alloc(5)
        head.write('E')
        head.writeInt32BE(fields.length + 4, 1)
        return void client.end(Buffer.concat([head, fields]))
      }
      const upstream = connect(port, target.hostname)
      upstream.on('error', () => client.destroy())
      upstream.write(start)
      client.pipe(upstream).pipe(client)
      client.on('close', () => upstream.destroy())
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  // A server that listens on a port has such an address.
  target.port = String((server.address() as AddressInfo).port)
  return { url: target.href, refused }
}

t.test('a pooler that knows few startup parameters lets us in, and every connection has its settings', async (t) => {
  const pooler = await openPooler(t, await freshUrl(t))
  const store = await openPostgresStore(`${pooler.url}?lock_timeout=1234`)
  const thread = await addThread(store)
  t.strictSame(await store.threads.get(thread.thread_id, null), thread)
  await store.close()
  const line = await PgConnection.open(`${pooler.url}?lock_timeout=1234`)
  const sql = `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
    current_setting('TimeZone') AS zone, current_setting('application_name') AS name`
  t.strictSame(await line.rows(sql), [{ statement: '30s', lock: '1234ms', zone: 'UTC', name: 'colloquy' }])
  await line.close()
  t.strictSame(pooler.refused, [])
})

for (const query of [
  'channel_binding=require',
  'sslmode=prefer&channel_binding=prefer&target_session_attrs=read-write',
  'connection_limit=5&pool_timeout=10&pgbouncer=true',
  'connect_timeout=10&application_name=mine&keepalives=1',
  'options=-c%20lock_timeout%3D2s%20-c%20work_mem%3D8MB',
  'max=3'
])
  t.test(`a URL with ${query} is understood`, async (t) => {
    const store = await openPostgresStore(`${await freshUrl(t)}?${query}`)
    t.ok(await addThread(store))
    await store.close()
  })

t.test('a schema in the URL is made, and the tables are there and nowhere else', async (t) => {
  const url = await freshUrl(t, () => createDatabase())
  const store = await openPostgresStore(`${url}?schema=of%20"mine"`)
  const { thread_id } = await addThread(store)
  await store.close()
  const line = await PgConnection.open(url)
  t.teardown(() => line.close())
  t.strictSame(await line.rows('SELECT thread_id FROM "of ""mine""".threads_meta'), [{ thread_id }])
  t.strictSame(await line.rows("SELECT to_regclass('public.threads_meta')::text AS found"), [{ found: null }])
  const second = await openPostgresStore(`${url}?schema=of%20"mine"`)
  t.ok(await second.threads.get(thread_id, null), 'and found again')
  await second.close()
})

t.test('what TLS is asked for is what the driver is told', async (t) => {
  const file = join(t.testdir(), 'root.crt')
  writeFileSync(file, 'a certificate')
  const ssl = (query: string) => readUrl(`postgres://u@h/d?${query}`).ssl
  t.equal(ssl(''), false)
  t.equal(ssl('sslmode=require'), 'require')
  t.equal(ssl('sslmode=verify-full&sslrootcert=system'), 'verify-full')
  t.match(ssl(`sslmode=verify-full&sslrootcert=${file}`), { ca: 'a certificate', checkServerIdentity: undefined })
  for (const mode of ['verify-ca', 'require'])
    t.match(ssl(`sslmode=${mode}&sslrootcert=${file}`), { ca: 'a certificate', checkServerIdentity: Function })
  t.match(ssl(`sslrootcert=${file}`), { ca: 'a certificate' }, 'who names a root wants TLS')
})

t.test('what the URL leaves out is what PostgreSQL takes for granted', async (t) => {
  t.match(readUrl('postgres://me@/x'.replace('@/', '@h/')), {
    host: 'h',
    port: 5432,
    user: 'me',
    database: 'x',
    max: null
  })
  t.match(readUrl('postgresql://me:p%40ss%2F@[::1]:99'), { host: '::1', port: 99, password: 'p@ss/', database: 'me' })
  t.match(readUrl('postgres://%2Fvar%2Frun/x'), { host: '/var/run' })
  t.match(readUrl('postgres:///x?host=/var/run&port=99'), { host: '/var/run', port: 99, database: 'x' })
})

const BAD: Record<string, RegExp> = {
  'localhost:5432/x': /is none: it must be postgres:\/\/user:password@host:port\/name/,
  'http://localhost/x': /is none: it must be postgres/,
  'postgres://u:p@one,two/x': /names several hosts: name one/,
  'postgres://u:secret%@h/x': /a % that begins no code: write it as %25/,
  'postgres://u:secret@h/x?max=-3': /max=-3: it must be a whole number from 1 on/,
  'postgres://u:secret@h/x?max=0': /max=0/,
  'postgres://u:secret@h/x?max=many': /max=many/,
  'postgres://u:secret@h/x?sslmode=always': /sslmode=always: it must be disable, prefer, require/,
  'postgres://u:secret@h/x?sslrootcert=/nowhere.crt':
    /The file that sslrootcert names .* cannot be read: \/nowhere\.crt/
}

for (const [url, sentence] of Object.entries(BAD))
  t.test(`a bad URL is refused at once, with a sentence: ${url}`, async (t) => {
    const error = await openPostgresStore(url).catch((reason: unknown) => reason)
    t.match(error, { message: sentence })
    t.notMatch(error, { message: /secret/ })
  })

t.test('a setting that the server does not have is named', async (t) => {
  await t.rejects(openPostgresStore(`${await freshUrl(t)}?no_such_thing=1`), {
    message: /cannot be used: unrecognized configuration parameter "no_such_thing"/
  })
})
