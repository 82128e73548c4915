// The operator's reset of a password: what is in the file, and what is left when anything fails.
import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { CREDENTIALS_FILE, NobodyToReset, resetAdmin } from '../../lib/auth/admin.ts'
import { hashPassword, verifyPassword } from '../../lib/auth/password.ts'
import type { Store, Writer } from '../../lib/store/store.ts'
import type { User } from '../../lib/base/accounts.ts'
import { aUser, write } from '../contract/harness.ts'
import { type Backend, onEachBackend, openBackend } from '../fixtures/backends.ts'
import { homeOf } from '../fixtures/gateway.ts'
import { PASSWORD, apiTokensOf, writerOf } from '../fixtures/house.ts'

async function storeWithAdmin(t: Test, backend: Backend): Promise<{ store: Store; admin: User }> {
  const store = await openBackend(t, backend)
  const admin = aUser({ email: 'boss@example.com', system_role: 'admin', password_hash: await hashPassword(PASSWORD) })
  await write(store, { name: 'user.initialize', user: admin })
  return { store, admin }
}

const partsOf = (store: Store, home: string, email: string | null = null) => ({
  apiTokens: apiTokensOf(store),
  users: store.users,
  writer: writerOf(store),
  home,
  email
})

function credentialsIn(home: string): { text: string; email: string; password: string } {
  const text = readFileSync(join(home, CREDENTIALS_FILE), 'utf8')
  return { text, email: /^email: (.+)$/m.exec(text)?.[1] ?? '', password: /^password: (.+)$/m.exec(text)?.[1] ?? '' }
}

onEachBackend(
  t,
  '[Auth 11] a reset writes a new password to a file of mode 0600, ends the sessions and opens set-up again',
  async (t, backend) => {
    const home = join(homeOf(t), 'new')
    const { store, admin } = await storeWithAdmin(t, backend)
    const reset = await resetAdmin(partsOf(store, home))
    t.strictSame(reset, { email: admin.email, file: join(home, CREDENTIALS_FILE) }, 'the password is not told')
    const { email, password } = credentialsIn(home)
    t.equal(email, admin.email)
    t.match(password, /^[\w-]{22}$/)
    t.equal(statSync(reset.file).mode & 0o777, 0o600)
    t.strictSame(readdirSync(home), [CREDENTIALS_FILE], 'no draft is left')
    const row = await store.users.byId(admin.id)
    t.match(row, { needs_setup: true, token_version: admin.token_version + 1 })
    t.ok(await verifyPassword(password, row?.password_hash ?? null))
    t.notOk(await verifyPassword(PASSWORD, row?.password_hash ?? null))
  }
)

onEachBackend(
  t,
  '[Auth 11] a file that others may read, or a link to one, is replaced and not written to',
  async (t, backend) => {
    const home = homeOf(t)
    const { store } = await storeWithAdmin(t, backend)
    const elsewhere = join(home, 'elsewhere')
    writeFileSync(elsewhere, 'old contents', { mode: 0o644 })
    symlinkSync(elsewhere, join(home, CREDENTIALS_FILE))
    const { file } = await resetAdmin(partsOf(store, home))
    t.equal(readFileSync(elsewhere, 'utf8'), 'old contents')
    t.equal(statSync(file).mode & 0o777, 0o600)
    const first = credentialsIn(home).password
    await resetAdmin(partsOf(store, home))
    t.not(credentialsIn(home).password, first, 'another password each time')
  }
)

onEachBackend(
  t,
  '[Auth 11] an e-mail address picks the account, however it is written; nobody to reset is an error and leaves nothing',
  async (t, backend) => {
    const home = homeOf(t)
    const { store } = await storeWithAdmin(t, backend)
    const user = aUser({ email: 'ann@example.com', system_role: 'admin' })
    await write(store, { name: 'user.create', user })
    await write(store, { name: 'user.create', user: aUser({ email: 'bob@example.com' }) })
    t.match(await resetAdmin(partsOf(store, home, ' ANN@example.com')), { email: 'ann@example.com' })
    await t.rejects(resetAdmin(partsOf(store, home, 'bob@example.com')), { message: /no administrator/ })
    t.equal(credentialsIn(home).email, 'ann@example.com', 'the file of the last reset still stands')
    await resetAdmin(partsOf(store, home))
    const kept = readdirSync(home).filter((name) => name !== CREDENTIALS_FILE)
    t.equal(kept.length, 1, 'the password of the other administrator is kept beside the new one')
    rmSync(join(home, kept[0]!))
    rmSync(join(home, CREDENTIALS_FILE))
    await t.rejects(resetAdmin(partsOf(store, home, 'nobody@example.com')), NobodyToReset)
    await t.rejects(resetAdmin(partsOf(await openBackend(t, backend), home)), NobodyToReset)
    t.strictSame(readdirSync(home), [])
  }
)

onEachBackend(
  t,
  '[Auth 11] a reset whose write fails leaves the old password, the old file, and no draft',
  async (t, backend) => {
    const home = homeOf(t)
    const { store, admin } = await storeWithAdmin(t, backend)
    await resetAdmin(partsOf(store, home))
    const before = [await store.users.byId(admin.id), credentialsIn(home).text]
    const broken: Writer = { write: () => Promise.reject(new Error('disk full')) }
    await t.rejects(resetAdmin({ ...partsOf(store, home), writer: broken }), { message: 'disk full' })
    t.strictSame([await store.users.byId(admin.id), credentialsIn(home).text], before)
    t.strictSame(readdirSync(home), [CREDENTIALS_FILE])
  }
)

onEachBackend(t, '[Auth 11] a file that cannot be written leaves the old password', async (t, backend) => {
  const { store, admin } = await storeWithAdmin(t, backend)
  const notAFolder = join(homeOf(t), 'file')
  writeFileSync(notAFolder, '')
  await t.rejects(resetAdmin(partsOf(store, notAFolder)))
  t.strictSame(await store.users.byId(admin.id), admin)
  t.notOk(existsSync(join(notAFolder, CREDENTIALS_FILE)))
})

onEachBackend(t, '[18.B.3] a reset ends the API tokens of the account, and of nobody else', async (t, backend) => {
  const { store, admin } = await storeWithAdmin(t, backend)
  const other = aUser({ email: 'other@example.com' })
  await write(store, { name: 'user.create', user: other })
  const apiTokens = apiTokensOf(store)
  for (const user_id of [admin.id, admin.id, other.id])
    await apiTokens.create({ user_id, name: 'key', scopes: [], lifetimeMs: null })
  await resetAdmin(partsOf(store, homeOf(t)))
  t.equal((await apiTokens.list(admin.id)).length, 0)
  t.equal((await apiTokens.list(other.id)).length, 1)
})
