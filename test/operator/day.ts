// A day of an operator: one installation from the first command to the last, by the command lines of bin/README.md and nothing else.
// `npm test` lives it from the build, without proxies and provider; the long form from the packed tarball, behind nginx and Caddy.
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Child } from '../fixtures/child.ts'
import {
  archiveOf,
  type Day,
  dawn,
  followed,
  hasEnded,
  lastAnswer,
  modelOf,
  openLink,
  remainsOf,
  signInAs,
  start,
  stopsInOrder,
  words
} from '../fixtures/day.ts'
import { upload } from '../fixtures/form.ts'
import { asked, homeOf, listIn, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'
import { serverBehind } from '../fixtures/manual.ts'
import { scripted } from '../fixtures/model.ts'
import { isOffline, lendCompiled, NPM_SETTINGS, npmOfThisMachine, pack } from '../fixtures/package.ts'
import { frameTexts, idsOf, onOther } from '../fixtures/pair.ts'
import { createDatabase } from '../fixtures/postgres.ts'
import { filesWith } from '../fixtures/remains.ts'
import { CADDY, inFront, NGINX, programOf } from '../fixtures/reverse-proxy.ts'
import { IS_LONG } from '../fixtures/size.ts'
import { textOf } from '../fixtures/stream.ts'

const AUTH = '/api/v1/auth'
const ADMIN = '/api/v1/admin'
const SECRET = 'planted-secret-of-sessions-that-is-long-enough'
const OTHER_PASSWORD = 'correct-horse-43'
/** What Ann says, writes and uploads, and nobody else. */
const HERS = ['zebrasaid', 'zebratitle', 'zebranote']
const TUPLES = { stream_mode: 'messages-tuple' }
/** So that what dies is noticed in seconds. */
const QUICK = { COLLOQUY_RUNS__LEASE_MS: '3000', COLLOQUY_STREAMS__HEARTBEAT_MS: '500' }
/** A second, in days. */
const SECOND_IN_DAYS = '0.00001'

interface Step {
  readonly name: string
  readonly work: (t: Test, day: Day) => Promise<void>
  /** It takes what `npm test` has no time for, or what not every machine has. */
  readonly isLong?: true
}

// --------------------------------------------------------------------------------------------- the morning: one process on SQLite

async function installsThePackage(t: Test, { home }: Day): Promise<void> {
  pack(home.folder)
  const prefix = join(home.programs, '..')
  Object.assign(home.env, npmOfThisMachine(), NPM_SETTINGS, { npm_config_prefix: prefix })
  const installed = await home.tried('npm install --global ./colloquy')
  if (isOffline({ status: installed.code, text: installed.errors })) throw new Error('there is no way to the packages')
  t.equal(installed.code, 0, installed.errors)
  await home.run('npm install --global openid-client')
  const modules = join(prefix, 'lib', 'node_modules')
  t.strictSame(readdirSync(modules).sort(), ['colloquy', 'openid-client'])
  home.program = join(modules, 'colloquy', 'dist', 'bin', 'colloquy.js')
  lendCompiled(join(modules, 'colloquy', 'node_modules'))
}

async function putsAProxyInFront(t: Test, day: Day, proxy: typeof NGINX): Promise<void> {
  await day.front?.stop()
  day.front = await inFront(day.t, proxy, Number(new URL(day.url).port), day.ports)
  t.pass(`${proxy.name} listens at ${day.url}`)
}

async function configuresByEnvironment(t: Test, { home, ports, url, company, front }: Day): Promise<void> {
  Object.assign(home.env, QUICK, {
    COLLOQUY_HOME: join(home.folder, 'home'),
    GATEWAY_PORT: String(ports[0]),
    AUTH_JWT_SECRET_FILE: home.secret('jwt_secret', SECRET),
    COLLOQUY_MODELS_FILE: home.secret('models', '[]'),
    COLLOQUY_AUTH__REGISTRATION: 'invite',
    COLLOQUY_RUNS__ON_RESTART: 'resume'
  })
  if (front) {
    const { trusted_proxies, drain_ms } = serverBehind('caddy')
    Object.assign(home.env, {
      COLLOQUY_SERVER__PUBLIC_URL: url,
      COLLOQUY_SERVER__TRUSTED_PROXIES: JSON.stringify(trusted_proxies),
      COLLOQUY_SERVER__DRAIN_MS: String(drain_ms),
      OIDC_SECRET_FILE: home.secret('oidc_secret', textIn(company.section, 'client_secret')),
      COLLOQUY_AUTH__OIDC__PROVIDERS: JSON.stringify([{ ...company.section, client_secret: '$OIDC_SECRET' }])
    })
  }
  t.match(await home.run('colloquy serve --check'), /can be used/)
  t.match(await home.run('colloquy doctor'), front ? /proxy\b.*arrive/ : /./)
  const shown = await home.run('colloquy config show')
  t.match(shown, 'registration: invite')
  t.notMatch(shown, SECRET)
}

async function startsAServer(t: Test, day: Day): Promise<void> {
  const { log } = await start(day, 0)
  t.match(await day.home.run('until curl', { ':8001': `:${day.ports[0]}` }), /ready/)
  t.notMatch(log, /"level":"?(warn|error|40|50)/, 'it has nothing to complain of')
}

async function makesTheAdministrator(t: Test, { home, root, url }: Day): Promise<void> {
  const link = await home.run('colloquy user create root@example.com --role admin')
  t.match(link, `${url}/#/password/`)
  t.equal((await openLink(root, link, PASSWORD)).status, 200)
  t.equal((await openLink(new Person(url), link, OTHER_PASSWORD)).status, 403, 'a link is good once')
  t.equal((await signInAs(root, 'root@example.com', PASSWORD)).status, 200)
  t.match((await root.get(`${AUTH}/me`)).body, { system_role: 'admin' })
}

async function invites(t: Test, { home, ann, bob, url }: Day): Promise<void> {
  for (const [person, name] of [
    [ann, 'ann'],
    [bob, 'bob']
  ] as const) {
    const account = { email: `${name}@example.com`, password: PASSWORD }
    t.equal((await person.post(`${AUTH}/register`, account)).status, 403, 'nobody comes in without one')
    const link = await home.run('colloquy user invite', { 'Ann of sales': name })
    t.match(link, `${url}/#/invitation/`)
    const invitation = link.trim().split('/').at(-1)
    t.equal((await person.post(`${AUTH}/register`, { ...account, invitation })).status, 201)
  }
}

async function signsInAtTheCompany(t: Test, { company, url }: Day): Promise<void> {
  company.people.set('cid', { email: 'cid@example.com', email_verified: true })
  const { browser, at } = await company.signIn('cid')
  t.equal(at, `${url}/`)
  t.match((await browser.person.get(`${AUTH}/me`)).body, { email: 'cid@example.com', oauth_provider: 'company' })
  const { status } = await browser.person.post('/api/runs/wait', asked('/demo deltas=3 rate=0'))
  t.equal(status, 200)
}

async function runs(t: Test, day: Day): Promise<void> {
  const { ann } = day
  const [said, title, note] = HERS
  day.thread = await ann.thread()
  await ann.ask('PATCH', `/api/threads/${day.thread}`, { body: { metadata: { about: title } } })
  t.equal((await upload(ann, day.thread, [[`${note}.txt`, note!]])).status, 200)
  const stream = await ann.stream(day.thread, `/demo deltas=40 rate=40 ${said}`, TUPLES)
  await stream.untilFrames(10)
  const { lastId } = stream
  const joined = await ann.join(stream.runPath, lastId, ['messages-tuple'])
  await Promise.all([stream.whole(), joined.whole()])
  const ids = idsOf(stream.frames)
  t.strictSame(idsOf(joined.frames), ids.slice(ids.indexOf(lastId!) + 1), 'who comes later has the rest')
  t.match(textOf(stream.frames), words(40))
}

// ------------------------------------------------------------------------------------------------------- the people

async function resetsAPassword(t: Test, { home, ann }: Day): Promise<void> {
  const link = await home.run('colloquy user password ann@example.com --link')
  t.equal((await openLink(new Person(ann.url), link, OTHER_PASSWORD)).status, 200)
  t.equal((await ann.get(`${AUTH}/me`)).status, 401, 'her sessions have ended')
  t.equal((await signInAs(ann, 'ann@example.com', PASSWORD)).status, 401)
  t.equal((await signInAs(ann, 'ann@example.com', OTHER_PASSWORD)).status, 200)
}

async function disables(t: Test, { home, bob }: Day): Promise<void> {
  const his = { 'ann@example.com': 'bob@example.com' }
  const stream = await bob.stream(await bob.thread(), '/demo deltas=9999 rate=20', TUPLES)
  await stream.untilFrames(3)
  t.match(await home.run('colloquy user disable', his), /is disabled/)
  await stream.ended
  t.notMatch(textOf(stream.frames), words(999), 'his streams end')
  t.equal((await bob.get(`${AUTH}/me`)).status, 401)
  t.notMatch(await signInAs(bob, 'bob@example.com', PASSWORD), { status: 200 })
  t.match(JSON.parse(await home.run('colloquy user list --disabled')), { email: 'bob@example.com' })
  t.match(await home.run('colloquy user enable', his), /is enabled/)
  t.equal((await signInAs(bob, 'bob@example.com', PASSWORD)).status, 200)
}

async function setsAQuota(t: Test, { home, root, bob }: Day): Promise<void> {
  const ask = () => bob.post('/api/runs/wait', asked('/demo deltas=3 rate=0'))
  await home.run('colloquy user quota robot', { robot: 'bob@example.com', '5000': '1' })
  await until(async () => (await ask()).status === 429, 'it counts')
  const refused = await ask()
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  t.match((await bob.get(`${AUTH}/me`)).body, { quotas: { runs_per_day: { max: 1, resets_at: /T00:00:00/ } } })
  const id = textIn((await bob.get(`${AUTH}/me`)).body, 'id')
  const { status } = await root.ask('PATCH', `${ADMIN}/users/${id}`, { body: { quota: { runs_per_day: 5000 } } })
  t.equal(status, 200)
  await until(async () => (await ask()).status === 200, 'and so does the next one')
  t.match(await home.run('colloquy usage --by user', { '2026-11-01': '2026-01-01' }), id)
}

async function readsTheAudit(t: Test, { home, root }: Day): Promise<void> {
  const all = (await root.get(`${ADMIN}/audit?limit=1000`)).body
  const actions = listIn(all, 'entries').map((one) => textIn(one, 'action'))
  const done = ['account_created', 'invitation_created', 'password', 'account_disabled', 'account_enabled', 'quota']
  for (const action of [...done, 'sign_in', 'sign_in_failed']) t.ok(actions.includes(action), action)
  const out = await home.run('colloquy audit --action', { account_erased: 'account_disabled' })
  t.match(out, /account_disabled\toperator\tuser:/)
  t.notMatch(JSON.stringify(all) + out, '@example.com', 'accounts stand there by id')
}

// ------------------------------------------------------------------------------------------------- the bad machine

async function backsUpWhileItRuns(t: Test, day: Day): Promise<void> {
  const { home, ann, bob, backups } = day
  const stream = await bob.stream(await bob.thread(), '/demo deltas=9999 rate=50', TUPLES)
  day.cutRun = stream.runPath
  await stream.untilFrames(5)
  t.match(await home.run('colloquy backup', { '/backup': backups }), /rows/)
  const whole = await home.run('colloquy restore /backup/colloquy-2026-01-31.zip --check', archiveOf(day))
  t.match(whole, /is whole/)
  t.notOk(stream.isOver, 'nobody was cut off')
  day.laterThread = await ann.thread()
}

async function dies(t: Test, { servers, bob, cutRun }: Day): Promise<void> {
  const stream = await bob.join(cutRun, null, ['messages-tuple'])
  await stream.untilFrames(5)
  await servers[0]!.kill()
  await stream.ended
  t.notOk(hasEnded(stream.frames), 'it is cut')
}

async function restoresElsewhere(t: Test, day: Day): Promise<void> {
  const { home, ann, bob, thread, cutRun, laterThread } = day
  const elsewhere = homeOf(day.t)
  await home.run('colloquy restore /backup/colloquy-2026-01-31.zip --home', { ...archiveOf(day), '/new': elsewhere })
  home.env.COLLOQUY_HOME = elsewhere
  await start(day, 0)
  // The secret of sessions is no part of the home: the environment has it.
  t.match(await lastAnswer(ann, thread), words(40), 'she is still signed in, and finds what was said')
  t.equal((await ann.get(`/api/threads/${thread}/artifacts/mnt/user-data/uploads/${HERS[2]}.txt`)).text, HERS[2])
  t.equal((await ann.get(`/api/threads/${laterThread}`)).status, 404, 'what came after the backup is lost')
  t.match((await bob.get(cutRun)).body, { status: 'running' }, 'what was in flight goes on, as after a crash')
  t.equal((await bob.post(`${cutRun}/cancel?wait=true`)).status, 204)
}

async function prunesTheFile(t: Test, { home, ann }: Day): Promise<void> {
  const thread = await ann.thread()
  await ann.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0 lionsaid'))
  const files = () => filesWith(home.env.COLLOQUY_HOME!, ['lionsaid'])
  t.ok(files().length > 0)
  t.equal((await ann.ask('DELETE', `/api/threads/${thread}`)).status, 200)
  await until(async () => {
    await home.run('colloquy prune --now')
    return files().length === 0
  }, 'no byte of it is left')
}

// --------------------------------------------------------------------------------------- the afternoon: PostgreSQL

async function movesToPostgres(t: Test, day: Day): Promise<void> {
  const { home, ann, thread } = day
  const shown = async () =>
    Promise.all(['state', 'messages', 'runs'].map(async (one) => (await ann.get(`/api/threads/${thread}/${one}`)).body))
  const before = await shown()
  t.match(await home.tried("colloquy move '$DATABASE_URL'"), { code: 2 }, 'it has to be named')
  const database = await createDatabase()
  day.t.teardown(() => database.remove())
  home.env.DATABASE_URL_FILE = home.secret('database_url', database.url)
  await stopsInOrder(t, day)
  t.match(await home.run("colloquy move '$DATABASE_URL'"), /rows are in both, and the same/)
  await start(day, 0)
  t.strictSame(await shown(), before)
  t.match(await home.run('colloquy doctor'), /PostgreSQL \d+/)
}

async function addsAProcess(t: Test, day: Day): Promise<void> {
  const { ann, ports, url } = day
  const second = await start(day, 1)
  const other = onOther(ann, second)
  const first = new Person(`http://127.0.0.1:${ports[0]}`, ann.cookies)
  const stream = await first.stream(await first.thread(), '/demo deltas=20 rate=40', TUPLES)
  const joined = await other.join(stream.runPath, null, ['messages-tuple'])
  await Promise.all([stream.whole(), joined.whole()])
  t.strictSame(frameTexts(joined), frameTexts(stream), 'both show the same')
  t.equal((await ann.get('/api/v1/auth/me')).status, 200, url)
}

async function losesAProcess(t: Test, day: Day): Promise<void> {
  const { ann, servers, front, ports } = day
  const first = new Person(`http://127.0.0.1:${ports[0]}`, ann.cookies)
  const thread = await first.thread()
  const stream = await first.stream(thread, '/demo deltas=60 rate=20', TUPLES)
  await stream.until(({ frames }) => textOf(frames).includes('w0010'))
  await servers[0]!.kill()
  const reader = front ? ann : onOther(ann, servers[1]!)
  t.equal((await followed(reader, stream.runPath, stream)).trim(), words(60), 'its reader has all of it, once')
  t.match(await lastAnswer(reader, thread), words(60))
  await start(day, 0)
}

// ------------------------------------------------------------------------------------------------------- the evening

async function prunesWhatIsOld(t: Test, { home }: Day): Promise<void> {
  t.match(await home.run('COLLOQUY_RETENTION__RUNS_DAYS=', { 90: SECOND_IN_DAYS }), /^runs\t[1-9]/m)
  home.env.COLLOQUY_RETENTION__RUNS_DAYS = SECOND_IN_DAYS
}

async function restartsThemInTurn(t: Test, day: Day): Promise<void> {
  const { home, ann, servers, front, model, thread } = day
  home.secret('models', JSON.stringify([modelOf(model, 'first')]))
  for (const at of [0, 1] as const) {
    t.match(await servers[at]!.stop(), { code: 0 })
    const there = front ? ann : onOther(ann, servers[1 - at]!)
    const { status } = await there.post('/api/runs/wait', asked(scripted({ text: 'ok' }, '/demo deltas=3 rate=0 ')))
    t.equal(status, 200, 'the other one answers')
    await start(day, at)
  }
  const left = async () => listIn((await ann.get(`/api/threads/${thread}/runs`)).body).length
  await until(async () => (await left()) === 0, 'what was too old is gone')
  t.match(await lastAnswer(ann, thread), words(40), 'and what was said is not')
}

async function erases(t: Test, day: Day): Promise<void> {
  const { home, ann, bob, thread } = day
  const id = textIn((await ann.get(`${AUTH}/me`)).body, 'id')
  const wanted = [...HERS, thread, 'ann@example.com', id]
  const { folder, leftIn } = remainsOf(home, id, wanted)
  t.ok((await leftIn()).length > 5)
  // A server that runs looks again after a minute, and the command waits for that.
  if (!IS_LONG) await stopsInOrder(t, day)
  const said = await home.run('colloquy user erase')
  t.match(said, `Nothing of ann@example.com is left but ${id} in the audit`)
  t.match(said, /yours to delete: colloquy\.db$/m, 'what the move has left')
  for (const name of ['colloquy.db', 'colloquy.db-wal', 'colloquy.db-shm'])
    rmSync(join(folder, 'data', name), { force: true })
  t.strictSame(await leftIn(), [], 'no row of any table and no byte of any file')
  t.match(await home.run('colloquy audit --action'), `account_erased\toperator\tuser:${id}`)
  if (!IS_LONG) for (const at of [0, 1] as const) await start(day, at)
  t.equal((await ann.get(`${AUTH}/me`)).status, 401)
  t.equal((await bob.get(`${AUTH}/me`)).status, 200, 'others keep what they have')
}

async function reloads(t: Test, { home, root, bob, servers, model }: Day): Promise<void> {
  const namesOn = async (server: Child) =>
    listIn((await onOther(bob, server).get('/api/models')).body, 'models').map((one) => textIn(one, 'name'))
  const configure = (models: readonly object[]) => home.secret('models', JSON.stringify(models))
  configure([modelOf(model, 'second')])
  servers[0]!.process.kill('SIGHUP')
  for (const server of servers) await until(async () => (await namesOn(server)).join() === 'second', 'both have it')
  const answer = await bob.post('/api/runs/wait', asked(scripted({ text: 'said by a model' })))
  t.match(answer.text, 'said by a model')
  configure([modelOf(model, 'third')])
  const taken = await root.post(`${ADMIN}/reload`)
  t.match(taken.body, { processes: [{ taken: ['models'] }, { taken: ['models'] }] })
  configure([{ name: 'fourth' }])
  t.equal((await root.post(`${ADMIN}/reload`)).status, 422)
  for (const server of servers) t.strictSame(await namesOn(server), ['third'], 'a wrong file changes nothing')
}

async function ends(t: Test, day: Day): Promise<void> {
  await stopsInOrder(t, day)
  await day.front?.stop()
}

// ---------------------------------------------------------------------------------------------------------- the day

const STEPS: readonly Step[] = [
  { name: 'the tarball is installed into an empty folder', work: installsThePackage, isLong: true },
  { name: 'nginx stands in front', work: (t, day) => putsAProxyInFront(t, day, NGINX), isLong: true },
  { name: 'it is configured by the environment, secrets by files', work: configuresByEnvironment },
  { name: 'a server is started', work: startsAServer },
  { name: 'the first administrator comes in by a link', work: makesTheAdministrator },
  { name: 'people are invited', work: invites },
  { name: 'the company signs its people in, through nginx', work: signsInAtTheCompany, isLong: true },
  { name: 'somebody runs the agent, and joins later', work: runs },
  { name: 'a password is reset', work: resetsAPassword },
  { name: 'an account is disabled and enabled', work: disables },
  { name: 'an account has a quota', work: setsAQuota },
  { name: 'the audit tells all of it', work: readsTheAudit },
  { name: 'a backup is made while it runs', work: backsUpWhileItRuns },
  { name: 'the machine dies', work: dies },
  { name: 'the backup is restored elsewhere', work: restoresElsewhere },
  { name: 'what was deleted is pruned from the file', work: prunesTheFile },
  { name: 'it moves to PostgreSQL', work: movesToPostgres },
  { name: 'a second process is added', work: addsAProcess },
  { name: 'a process is killed, and its run goes on in the other', work: losesAProcess },
  { name: 'Caddy takes the place of nginx', work: (t, day) => putsAProxyInFront(t, day, CADDY), isLong: true },
  { name: 'the company signs its people in, through Caddy', work: signsInAtTheCompany, isLong: true },
  { name: 'what is old is counted, and shall be kept no longer', work: prunesWhatIsOld },
  { name: 'the processes restart one after the other, with a model', work: restartsThemInTurn },
  { name: 'an account is erased', work: erases },
  { name: 'the configuration is read again', work: reloads },
  { name: 'everything ends in order', work: ends }
]

const skip = [NGINX, CADDY].every(programOf) ? false : 'there is no nginx or no Caddy'
const day = await dawn(t)
let hasFailed = false
for (const { name, work, isLong } of STEPS) {
  if (isLong && !IS_LONG) continue
  await t.test(name, { skip: hasFailed ? 'an earlier step has failed' : IS_LONG && skip }, async (t) => {
    hasFailed = true
    await work(t, day)
    hasFailed = !t.passing()
  })
}
