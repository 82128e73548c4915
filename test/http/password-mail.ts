// A forgotten password: a link by mail, to whom, how often, and what the answer says of who has an account.
import t, { type Test } from 'tap'
import { loadConfig } from '../../lib/config/config.ts'
import { command } from '../fixtures/child.ts'
import {
  configFile,
  homeOf,
  listIn,
  type Options,
  openSite,
  PASSWORD,
  Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { linkIn, openMailServer } from '../fixtures/mail-server.ts'

const AUTH = '/api/v1/auth'
const USERS = '/api/v1/admin/users'
const NEW = 'another-password-7'

async function mailing(t: Test, config: Options = {}) {
  const mail = await openMailServer(t)
  const site = await openSite(t, { config: { ...config, mail: { url: mail.url } } })
  const admin = new Person(site.url)
  await admin.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })
  const forgot = (email: unknown, headers: Record<string, string> = {}) =>
    new Person(site.url).post(`${AUTH}/forgot-password`, { email }, { headers })
  const jobs = async () => listIn((await admin.get('/api/v1/admin/jobs')).body, 'jobs')
  const quiet = () => until(async () => (await jobs()).length === 0, 'no job is left')
  return { mail, site, admin, forgot, jobs, quiet }
}

async function accountOf(person: Person): Promise<{ id: string; email: string }> {
  const { body } = await person.get(`${AUTH}/me`)
  return { id: textIn(body, 'id'), email: textIn(body, 'email') }
}

t.test('who has forgotten the password sets another by a link that was mailed, once', async (t) => {
  const { mail, site, admin, forgot, quiet } = await mailing(t)
  const ann = await signIn(site, 'ann')
  const { id, email } = await accountOf(ann)
  t.match((await new Person(site.url).get(`${AUTH}/setup-status`)).body, { password_mail: true })
  t.match(await forgot(` ${email.toUpperCase()} `), { status: 202, body: { message: String } })
  await until(() => mail.mails.length === 1, 'the mail')
  const [sent = ''] = mail.mails
  t.ok(sent.startsWith(`${email}\n`), 'to the address of the account')
  t.match(sent, /^Subject: Set a new password/m)
  t.match(sent, /within 30 minutes/)
  t.ok(sent.includes(`${site.url}/#/password/clq_`), 'the link leads here')
  const reset = (token: string) => new Person(site.url).post(`${AUTH}/reset-password`, { token, new_password: NEW })
  t.equal((await reset(linkIn(sent))).status, 200)
  t.equal((await reset(linkIn(sent))).status, 403, 'it is good once')
  t.equal((await ann.get(`${AUTH}/me`)).status, 401, 'what was open has ended')
  const again = new Person(site.url)
  t.equal((await again.post(`${AUTH}/login/local`, { username: email, password: NEW })).status, 200)
  await quiet()
  const lines = listIn((await admin.get(`/api/v1/admin/audit?user_id=${id}&action=password_link`)).body, 'entries')
  t.match(lines, [{ actor: 'nobody', target: `user:${id}`, address: '127.0.0.1', details: { how: 'mail' } }])
})

t.test(
  'a newer mail ends the link of the one before; one of an administrator stays until a password is set',
  async (t) => {
    const { mail, site, admin, forgot, quiet } = await mailing(t)
    const { id, email } = await accountOf(await signIn(site, 'ann'))
    const made = textIn((await admin.post(`${USERS}/${id}/password-link`)).body, 'token')
    for (const count of [1, 2]) {
      await forgot(email, { 'accept-language': 'de-AT,en;q=0.5' })
      await until(() => mail.mails.length === count, 'the mail')
      await quiet()
    }
    t.match(mail.mails[1], /Ein neues Passwort setzen/, 'in the language of the browser')
    const reset = (token: string) => new Person(site.url).post(`${AUTH}/reset-password`, { token, new_password: NEW })
    t.equal((await reset(linkIn(mail.mails[0]!))).status, 403)
    t.equal((await reset(made)).status, 200)
    t.equal((await reset(linkIn(mail.mails[1]!))).status, 403, 'the password that was set ends all links')
  }
)

t.test('a password that is changed ends the links to another one', async (t) => {
  const { mail, site, forgot } = await mailing(t)
  const ann = await signIn(site, 'ann')
  const { email } = await accountOf(ann)
  await forgot(email)
  await until(() => mail.mails.length === 1, 'the mail')
  const changed = { current_password: PASSWORD, new_password: NEW }
  t.equal((await ann.post(`${AUTH}/change-password`, changed)).status, 200)
  const body = { token: linkIn(mail.mails[0]!), new_password: 'a-third-password-8' }
  t.equal((await new Person(site.url).post(`${AUTH}/reset-password`, body)).status, 403)
})

t.test('whoever has no account, or is disabled, is answered alike and sent nothing', async (t) => {
  const { mail, site, admin, forgot, quiet } = await mailing(t)
  const { id, email } = await accountOf(await signIn(site, 'ann'))
  await admin.ask('PATCH', `${USERS}/${id}`, { body: { disabled: true } })
  const known = await accountOf(await signIn(site, 'bob'))
  const answers = [await forgot('nobody@example.com'), await forgot(email), await forgot(known.email)]
  t.equal(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1, 'nobody learns who has an account')
  await until(() => mail.mails.length === 1, 'the one mail')
  await quiet()
  t.ok(mail.mails[0]!.startsWith(known.email))
  t.match(await forgot('robot@service.invalid'), { status: 422 }, 'a service account has no mailbox')
})

t.test('bad addresses, unknown fields and too many requests are refused', async (t) => {
  const { mail, site, forgot, quiet } = await mailing(t)
  for (const email of ['', 'nobody', 'a@b', 7, null, ['ann@example.com'], 'a@example.com, b@example.com'])
    t.equal((await forgot(email)).status, 422, JSON.stringify(email))
  const answers = []
  for (let n = 0; n < 5; n++) answers.push(await forgot('nobody@example.com'))
  t.strictSame(
    answers.map(({ status }) => status),
    [202, 202, 202, 429, 429],
    'of one address'
  )
  t.ok(Number(answers[4]!.headers.get('retry-after')) > 0)
  const many = []
  for (let n = 0; n < 25; n++) many.push((await forgot(`nobody${n}@example.com`)).status)
  t.ok(many.includes(202) && many.at(-1) === 429, 'of one client')
  await quiet()
  t.equal(mail.asked, 0)
  t.equal((await new Person(site.url).get(`${AUTH}/forgot-password`)).status, 405)
})

t.test(
  'a mail that the server has not taken is sent later; its link is made then, and no text of the server is shown',
  async (t) => {
    const { mail, site, admin, forgot, jobs } = await mailing(t)
    mail.refusal = { code: 451, text: 'come back, mail-secret' }
    const { id, email } = await accountOf(await signIn(site, 'ann'))
    await forgot(email)
    await until(async () => /451/.test(JSON.stringify(await jobs())), 'the failure is noted')
    t.match(await jobs(), [{ kind: 'mail', key: id, user_id: id, attempts: 1 }])
    t.notMatch(JSON.stringify([await jobs(), site.logged]), /mail-secret|clq_/)
    mail.refusal = null
    t.match(await command(site.home, 'jobs', 'retry', 'mail', id), { code: 0 })
    await until(() => mail.mails.length === 1, 'the mail')
    t.ok(linkIn(mail.mails[0]!).length > 20)
    await until(async () => (await jobs()).length === 0, 'no job is left')
    t.equal(listIn((await admin.get('/api/v1/admin/audit?action=password_link')).body, 'entries').length, 1, 'one line')
  }
)

t.test(
  'where passwords are not used, or there is no mail server, nothing is mailed and the page offers nothing',
  async (t) => {
    const mail = await openMailServer(t)
    const oidc = { providers: [{ id: 'a', issuer: 'http://127.0.0.1:9', client_id: 'c' }] }
    const without = await openSite(t, { config: { auth: { registration: 'open' } } })
    const elsewhere = await openSite(t, { config: { auth: { local: false, oidc }, mail: { url: mail.url } } })
    for (const [site, code] of [
      [without, 'password_mail_off'],
      [elsewhere, 'local_sign_in_off']
    ] as const) {
      const stranger = new Person(site.url)
      t.match((await stranger.get(`${AUTH}/setup-status`)).body, { password_mail: false })
      const answer = await stranger.post(`${AUTH}/forgot-password`, { email: 'ann@example.com' })
      t.match(answer, { status: 403, body: { detail: { code } } })
    }
  }
)

t.test('a link in a mail begins with server.public_url, whatever the request calls us', async (t) => {
  const mail = await openMailServer(t)
  const server = { public_url: 'https://chat.example.com/inner/' }
  const site = await openSite(t, { config: { server, mail: { url: mail.url, from: 'Chat <chat@example.com>' } } })
  const { email } = await accountOf(await signIn(site, 'ann'))
  const headers = { 'x-forwarded-host': 'evil.example.com', 'x-forwarded-prefix': '/evil' }
  await new Person(site.url).post(`${AUTH}/forgot-password`, { email }, { headers })
  await until(() => mail.mails.length === 1, 'the mail')
  t.match(mail.mails[0], /^https:\/\/chat\.example\.com\/inner\/#\/password\/clq_/m)
  t.match(mail.mails[0], /^From: Chat <chat@example.com>/m)
  t.notMatch(mail.mails[0], /evil/)
})

t.test('a mail server that is none, and links that could not lead here, are refused at the start', async (t) => {
  const home = homeOf(t)
  const load = (options: Options) => () =>
    loadConfig({ file: configFile(home, options), home, port: 0, env: {}, cwd: home })
  t.throws(load({ mail: { url: 'http://mail.example.com' } }), /mail\.url must be an address as smtp:/)
  t.throws(load({ mail: { url: 'smtp://m' }, server: { host: '0.0.0.0' } }), /mail\.url needs server\.public_url/)
  const config = load({ mail: { url: 'smtp://m' }, server: { host: '0.0.0.0', public_url: 'https://c.example.com' } })()
  t.equal(config.mail.link_minutes, 30)
})
