// Obligations of UserReads, the user ops and session.deny.
import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { anAssistant } from './assistants.ts'
import { aCron } from './crons.ts'
import {
  addEndedRun,
  addEvents,
  addThread,
  anEvent,
  aSettlement,
  aUser,
  addRun,
  durableRules,
  messageCount,
  type Open,
  refuses,
  rules,
  time,
  write
} from './harness.ts'
import { aJob } from './jobs.ts'

function digest(n: number): string {
  return createHash('sha256').update(String(n)).digest('hex')
}

const NEVER = { created_at: time(1), expires_at: null, last_used_at: null }

/** The n-th session of a user. */
function aSession(user_id: string, n: number) {
  const at = time(n)
  const from = { device: `browser ${n}`, address: '10.0.0.1' }
  return { digest: digest(100 + n), user_id, created_at: at, last_used_at: at, expires: 8_000_000_000, ...from }
}

export function userStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)
  test('a user is found by id and by email, field for field', async (t, store) => {
    const user = aUser({
      needs_setup: true,
      token_version: 7,
      oauth_provider: 'github',
      oauth_id: '42',
      created_at: time(3)
    })
    t.equal(await write(store, { name: 'user.create', user }), 'created')
    t.strictSame(await store.users.byId(user.id), user)
    t.strictSame(await store.users.byEmail(user.email), user)
  })

  test('a user without a password has the hash null, not an empty text', async (t, store) => {
    const user = aUser({ password_hash: null })
    await write(store, { name: 'user.create', user })
    t.equal((await store.users.byId(user.id))?.password_hash, null)
  })

  test('an id or email that nobody has is null', async (t, store) => {
    await write(store, { name: 'user.create', user: aUser() })
    t.equal(await store.users.byId('nobody'), null)
    t.equal(await store.users.byEmail('nobody@example.com'), null)
    t.equal(await store.users.byEmail("' OR 1=1 --"), null)
  })

  test('an email has one account: the second is answered email_taken and is not there', async (t, store) => {
    const first = aUser({ email: 'ann@example.com' })
    const second = aUser({ email: 'ann@example.com' })
    t.equal(await write(store, { name: 'user.create', user: first }), 'created')
    t.equal(await write(store, { name: 'user.create', user: second }), 'email_taken')
    t.equal(await store.users.byId(second.id), null)
    t.equal((await store.users.byEmail('ann@example.com'))?.id, first.id)
  })

  test('an id has one account: a second one is refused and changes nothing', async (t, store) => {
    const user = aUser()
    await write(store, { name: 'user.create', user })
    await refuses(t, store, { name: 'user.create', user: { ...user, email: 'other@example.com' } }, 'refused')
    t.strictSame(await store.users.byId(user.id), user)
    t.equal(await store.users.byEmail('other@example.com'), null)
  })

  test('an OAuth identity has one account; users without one do not clash [contract 8.2]', async (t, store) => {
    const identity = { oauth_provider: 'github', oauth_id: '42' }
    await write(store, { name: 'user.create', user: aUser(identity) })
    await refuses(t, store, { name: 'user.create', user: aUser(identity) }, 'the same identity is refused')
    t.equal(
      await write(store, { name: 'user.create', user: aUser({ ...identity, oauth_provider: 'gitlab' }) }),
      'created'
    )
    t.equal(await write(store, { name: 'user.create', user: aUser({ oauth_provider: 'github' }) }), 'created')
    t.equal(await write(store, { name: 'user.create', user: aUser({ oauth_provider: 'github' }) }), 'created')
    t.equal(await write(store, { name: 'user.create', user: aUser() }), 'created')
  })

  test('admin is the first administrator, null as long as there is none', async (t, store) => {
    t.equal(await store.users.admin(), null)
    await write(store, { name: 'user.create', user: aUser({ created_at: time(1) }) })
    t.equal(await store.users.admin(), null, 'a normal user is none')
    const later = aUser({ system_role: 'admin', created_at: time(3) })
    const first = aUser({ system_role: 'admin', created_at: time(2) })
    await write(store, { name: 'user.create', user: later })
    t.equal((await store.users.admin())?.id, later.id)
    await write(store, { name: 'user.create', user: first })
    t.equal((await store.users.admin())?.id, first.id)
  })

  test('user.initialize creates the first administrator, also after a normal registration', async (t, store) => {
    await write(store, { name: 'user.create', user: aUser() })
    const admin = aUser({ system_role: 'admin' })
    t.equal(await write(store, { name: 'user.initialize', user: admin }), 'created')
    t.strictSame(await store.users.admin(), admin)
    const second = aUser({ system_role: 'admin' })
    t.equal(await write(store, { name: 'user.initialize', user: second }), 'initialized')
    t.equal(await store.users.byId(second.id), null)
  })

  test('of racing user.initialize exactly one creates', async (t, store) => {
    const racers = Array.from({ length: 8 }, () => aUser({ system_role: 'admin' }))
    const answers = await Promise.all(racers.map((user) => write(store, { name: 'user.initialize', user })))
    t.strictSame(answers.toSorted(), ['created', ...Array(7).fill('initialized')])
    t.equal((await store.users.admin())?.id, racers[answers.indexOf('created')]?.id)
  })

  test('user.initialize with an email that is taken answers email_taken and makes no administrator', async (t, store) => {
    await write(store, { name: 'user.create', user: aUser({ email: 'ann@example.com' }) })
    const user = aUser({ email: 'ann@example.com', system_role: 'admin' })
    t.equal(await write(store, { name: 'user.initialize', user }), 'email_taken')
    t.equal(await store.users.admin(), null)
  })

  test('user.update sets what is named, keeps the rest, and answers the whole user', async (t, store) => {
    const user = aUser({ needs_setup: true })
    await write(store, { name: 'user.create', user })
    const answer = await write(store, {
      name: 'user.update',
      id: user.id,
      set: { password_hash: '2$new', token_version: 1 }
    })
    const expected = { ...user, password_hash: '2$new', token_version: 1 }
    t.strictSame(answer, expected)
    t.strictSame(await store.users.byId(user.id), expected)
    const set = { email: 'new@example.com', needs_setup: false, system_role: 'admin', password_hash: null } as const
    t.strictSame(await write(store, { name: 'user.update', id: user.id, set }), { ...expected, ...set })
    t.strictSame(await store.users.admin(), { ...expected, ...set })
  })

  test('user.update of another version than the one that is meant answers changed and changes nothing', async (t, store) => {
    const user = aUser({ token_version: 3 })
    await write(store, { name: 'user.create', user })
    const update = (ifVersion: number, token_version: number) =>
      write(store, { name: 'user.update', id: user.id, set: { token_version }, ifVersion })
    t.equal(await update(2, 4), 'changed')
    t.strictSame(await store.users.byId(user.id), user)
    const both = await Promise.all([update(3, 4), update(3, 4)])
    t.equal(both.filter((answer) => answer === 'changed').length, 1, 'of two at once one')
    t.match(await store.users.byId(user.id), { token_version: 4 })
  })

  test('user.update of a user that has vanished answers null and creates none', async (t, store) => {
    t.equal(await write(store, { name: 'user.update', id: 'gone', set: { token_version: 1 } }), null)
    t.equal(await store.users.byId('gone'), null)
  })

  test("user.update to somebody else's email answers email_taken and changes nothing", async (t, store) => {
    const ann = aUser({ email: 'ann@example.com' })
    const bob = aUser({ email: 'bob@example.com' })
    await write(store, { name: 'user.create', user: ann })
    await write(store, { name: 'user.create', user: bob })
    const set = { email: 'ann@example.com', token_version: 1 }
    t.equal(await write(store, { name: 'user.update', id: bob.id, set }), 'email_taken')
    t.strictSame(await store.users.byId(bob.id), bob)
    t.match(
      await write(store, { name: 'user.update', id: ann.id, set }),
      { token_version: 1 },
      'the own email is not taken'
    )
  })

  test('an email that was given up finds nobody and may be taken again', async (t, store) => {
    const ann = aUser({ email: 'ann@example.com' })
    await write(store, { name: 'user.create', user: ann })
    await write(store, { name: 'user.update', id: ann.id, set: { email: 'new@example.com' } })
    t.equal(await store.users.byEmail('ann@example.com'), null)
    t.equal((await store.users.byEmail('new@example.com'))?.id, ann.id)
    t.equal(await write(store, { name: 'user.create', user: aUser({ email: 'ann@example.com' }) }), 'created')
  })

  test('an account that is removed is gone, and the job for what it has left is there', async (t, store) => {
    const [admin, user] = [aUser({ system_role: 'admin' }), aUser()]
    for (const one of [admin, user]) await write(store, { name: 'user.create', user: one })
    const job = aJob(user.id, { kind: 'departure', user_id: user.id })
    t.equal(await write(store, { name: 'user.remove', id: 'nobody', job }), null)
    t.equal(await store.jobs.get('departure', user.id), null)
    t.equal(await write(store, { name: 'user.remove', id: user.id, job }), 'removed')
    t.equal(await store.users.byId(user.id), null)
    t.match(await store.jobs.get('departure', user.id), { user_id: user.id, attempts: 0 })
    t.equal(await write(store, { name: 'user.create', user }), 'created', 'the address is free')
  })

  test('the last administrator is not removed: of two who remove each other at once one stays', async (t, store) => {
    const admins = [aUser({ system_role: 'admin' }), aUser({ system_role: 'admin' })]
    for (const user of [...admins, aUser()]) await write(store, { name: 'user.create', user })
    const outcomes = await Promise.all(
      admins.map(({ id }) => write(store, { name: 'user.remove', id, job: aJob(id, { kind: 'departure' }) }))
    )
    t.strictSame(outcomes.toSorted(), ['last_admin', 'removed'])
    t.ok(await store.users.admin())
    t.equal((await store.jobs.list({ limit: 9, offset: 0 })).length, 1)
  })

  test('an identity of a provider is one account, with the groups that were named last', async (t, store) => {
    const user = aUser({ oauth_provider: 'company', oauth_id: 'ann', groups: ['a', 'b'] })
    await write(store, { name: 'user.create', user })
    t.strictSame(await store.users.byIdentity('company', 'ann'), user)
    t.equal(await store.users.byIdentity('other', 'ann'), null)
    t.equal(await store.users.byIdentity('company', 'Ann'), null)
    const local = aUser({ email: 'bob@example.com' })
    await write(store, { name: 'user.create', user: local })
    t.strictSame(await store.users.byId(local.id), local, 'without groups there is no such field')
    const set = { oauth_provider: 'company', oauth_id: 'bob', groups: [] }
    t.match(await write(store, { name: 'user.update', id: local.id, set }), set)
    t.match(await store.users.byIdentity('company', 'bob'), { id: local.id, groups: [] })
  })

  test('sessions of a provider: found by all their names, checked by one process, and gone with their session', async (t, store) => {
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const of = (n: number, sid: string | null, checked: number | null) => {
      const session = { digest: digest(n), user_id: user.id, provider: 'company', subject: 'ann', sid, checked }
      return { ...session, tokens: `tokens ${n}`, expires: 9_000_000_000 }
    }
    const [first, second, third] = [of(1, 's1', 10), of(2, 's2', 20), of(3, null, null)]
    for (const session of [first, second, third]) await write(store, { name: 'session.attach', session, now: 0 })
    t.strictSame(await store.users.providerSession(first.digest), first)
    t.equal(await store.users.providerSession(digest(9)), null)
    const ordered = (sessions: readonly { readonly tokens: string }[]) => sessions.map(({ tokens }) => tokens).sort()
    t.strictSame(ordered(await store.users.providerSessions('company', 'ann', null)), [
      'tokens 1',
      'tokens 2',
      'tokens 3'
    ])
    t.strictSame(await store.users.providerSessions('company', 'ann', 's2'), [second])
    t.strictSame(await store.users.providerSessions('other', 'ann', null), [])
    t.strictSame(await store.users.providerSessions('company', null, null), [])
    const claim = (before: number, now: number, limit = 9) =>
      write(store, { name: 'session.claimChecks', before, now, limit })
    t.strictSame(await claim(20, 30, 1), [{ ...first, checked: 30 }], 'the oldest first')
    t.strictSame(await claim(20, 30), [{ ...second, checked: 30 }], 'and each once')
    t.strictSame(await claim(29, 40), [])
    t.strictSame(await claim(40, 9_000_000_001), [], 'none that has expired')
    await write(store, { name: 'session.setTokens', digest: first.digest, tokens: 'newer' })
    t.match(await store.users.providerSession(first.digest), { tokens: 'newer', checked: 30 })
    await write(store, { name: 'session.deny', digest: first.digest, expires: 9_000_000_000, now: 0 })
    t.equal(await store.users.providerSession(first.digest), null)
    await write(store, { name: 'user.update', id: user.id, set: { token_version: 1 } })
    t.strictSame(await store.users.providerSessions('company', 'ann', null), [], 'with all sessions')
    const late = { ...of(4, null, null), expires: 5 }
    await write(store, { name: 'session.attach', session: late, now: 0 })
    await write(store, { name: 'session.attach', session: of(5, null, null), now: 6 })
    t.equal(await store.users.providerSession(late.digest), null, 'what has expired goes')
  })

  test('who is disabled has no API tokens, sessions and turns of crons any more, and may be enabled again', async (t, store) => {
    const [admin, user] = [aUser({ system_role: 'admin' }), aUser()]
    for (const one of [admin, user]) await write(store, { name: 'user.create', user: one })
    await write(store, { name: 'session.use', session: aSession(user.id, 1), version: 0, now: 0 })
    await write(store, { name: 'cron.create', cron: aCron({ cron_id: 'c', user_id: user.id }), max: 9 })
    const token = { token_id: 't', user_id: user.id, name: 't', digest: digest(7), scopes: [], ...NEVER }
    await write(store, { name: 'apiToken.create', token, max: 9 })
    const disabled = await write(store, { name: 'user.setAccess', id: user.id, disabled_at: time(5) })
    t.match(disabled, { disabled_at: time(5), token_version: user.token_version + 1 })
    t.strictSame(await store.users.byId(user.id), disabled)
    t.strictSame(await store.users.sessions(user.id), [])
    t.strictSame(await store.apiTokens.list(user.id), [])
    t.match(await store.crons.get('c', user.id), { enabled: false, next_run_date: null })
    t.match((await store.users.list({ isDisabled: true, limit: 9, offset: 0 })).users, [{ id: user.id }])
    t.match(await write(store, { name: 'user.setAccess', id: user.id, disabled_at: null }), { disabled_at: null })
    t.equal(await write(store, { name: 'user.setAccess', id: 'nobody', role: 'admin' }), null)
  })

  test('the last administrator who may sign in keeps the role and is not disabled, whoever comes at once', async (t, store) => {
    const admins = [aUser({ system_role: 'admin' }), aUser({ system_role: 'admin' })]
    for (const user of admins) await write(store, { name: 'user.create', user })
    const [one, other] = admins.map(({ id }) => id) as [string, string]
    const outcomes = await Promise.all([
      write(store, { name: 'user.setAccess', id: one, role: 'user' }),
      write(store, { name: 'user.setAccess', id: other, disabled_at: time(1) })
    ])
    t.equal(outcomes.filter((outcome) => outcome === 'last_admin').length, 1)
    const admin = outcomes[0] === 'last_admin' ? one : other
    t.equal(
      await write(store, { name: 'user.remove', id: admin, job: aJob(admin, { kind: 'departure' }) }),
      'last_admin'
    )
  })

  test('a session is listed until it ends, alone or with all of its user', async (t, store) => {
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const [first, second] = [aSession(user.id, 1), aSession(user.id, 2)]
    for (const session of [first, second]) await write(store, { name: 'session.use', session, version: 0, now: 0 })
    const later = { ...first, created_at: time(9), last_used_at: time(9), device: null }
    await write(store, { name: 'session.use', session: later, version: 0, now: 0 })
    t.strictSame(await store.users.sessions(user.id), [second, { ...first, last_used_at: time(9) }])
    t.match((await store.users.list({ text: user.email, limit: 1, offset: 0 })).users, [{ last_seen_at: time(9) }])
    await write(store, { name: 'session.deny', digest: first.digest, expires: 9e9, now: 0 })
    await write(store, { name: 'session.use', session: first, version: 0, now: 0 })
    t.strictSame(await store.users.sessions(user.id), [second], 'one that has ended is not listed again')
    await write(store, { name: 'user.update', id: user.id, set: { token_version: 1 } })
    await write(store, { name: 'session.use', session: second, version: 0, now: 0 })
    t.strictSame(await store.users.sessions(user.id), [])
    await write(store, { name: 'session.use', session: aSession(user.id, 3), version: 1, now: 0 })
    const fourth = { ...aSession(user.id, 4), expires: 9_000_000_001 }
    await write(store, { name: 'session.use', session: fourth, version: 1, now: 9_000_000_000 })
    t.strictSame(await store.users.sessions(user.id), [fourth], 'what has expired goes')
  })

  test('accounts are listed oldest first, in pages, by part of the address and by role', async (t, store) => {
    const users = [3, 1, 2].map((n) =>
      aUser({ email: `u_${n}@example.com`, created_at: time(n), system_role: n === 2 ? 'auditor' : 'user' })
    )
    for (const user of users) await write(store, { name: 'user.create', user })
    const emails = async (search: object) =>
      (await store.users.list({ limit: 9, offset: 0, ...search })).users.map(({ email }) => email[2])
    t.strictSame(await emails({}), ['1', '2', '3'])
    t.strictSame(await emails({ limit: 1, offset: 1 }), ['2'])
    t.strictSame(await emails({ text: '_3@' }), ['3'])
    t.strictSame(await emails({ text: '%3' }), [], 'special characters are themselves')
    t.strictSame(await emails({ role: 'auditor' }), ['2'])
    t.equal((await store.users.list({ limit: 1, offset: 0 })).total, 3)
  })

  test('the audit comes back newest first, by who, whom, what and when', async (t, store) => {
    const line = (n: number, more: object = {}) => ({
      at: time(n),
      action: 'role',
      actor: 'operator',
      target: null,
      address: null,
      request_id: null,
      details: { n },
      ...more
    })
    const lines = [
      line(1),
      line(2, { actor: 'user:ann', address: '10.0.0.1', request_id: 'r' }),
      line(3, { target: 'user:ann', action: 'password' })
    ]
    for (const entry of lines) await write(store, { name: 'audit.add', entry })
    const found = async (search: object) =>
      (await store.audit.list({ limit: 9, ...search })).map(({ details }) => Number(details.n))
    t.strictSame(await found({}), [3, 2, 1])
    t.strictSame(await found({ about: 'user:ann' }), [3, 2])
    t.strictSame(await found({ action: 'role' }), [2, 1])
    t.strictSame(await found({ since: time(2) }), [3, 2])
    const [newest, ...older] = await store.audit.list({ limit: 9 })
    t.strictSame(
      (await store.audit.list({ limit: 1, before: newest!.audit_id })).map(({ at }) => at),
      [time(2)]
    )
    t.match(older[0], lines[1]!)
    await write(store, { name: 'user.forget', user_id: 'ann', agents: [] })
    t.match((await store.audit.list({ limit: 9 }))[1], { actor: 'user:ann', address: null })
  })

  test('of somebody who is forgotten nothing is left beside threads, and of others everything', async (t, store) => {
    const shared = await addThread(store, { user_id: null })
    const whole = { rating: 1, comment: null, message_id: null, created_at: time(1) } as const
    const runIds = new Map<string, string>()
    for (const user_id of ['ann', 'ben']) {
      const max = 9
      const run = await addRun(store, shared.thread_id, { user_id })
      runIds.set(user_id, run.run_id)
      await addEvents(store, run, [anEvent(1)])
      await write(store, aSettlement(run))
      if (store.feedback) {
        const feedback = { ...whole, feedback_id: user_id, run_id: run.run_id, thread_id: shared.thread_id, user_id }
        await write(store, { name: 'feedback.upsert', feedback })
      }
      await write(store, { name: 'cron.create', cron: aCron({ cron_id: user_id, user_id }), max })
      await write(store, { name: 'assistant.create', assistant: anAssistant({ assistant_id: user_id, user_id }), max })
      const item = { user_id, namespace: ['a'], key: 'k', value: {}, expires_at: null }
      await write(store, { name: 'item.put', item, now: time(1), max: { items: 9, bytes: 9999 } })
      await write(store, { name: 'job.put', job: aJob(user_id, { user_id }) })
      await write(store, { name: 'job.put', job: aJob(user_id, { kind: 'departure', user_id }) })
    }
    await write(store, { name: 'user.forget', user_id: 'ann', agents: [] })
    const kept = async (user: string) => ({
      runs: (await store.runs.list(shared.thread_id, { limit: 9, offset: 0 }, user)).length,
      messages: await messageCount(store, shared.thread_id, user),
      feedback: (await store.feedback?.list(shared.thread_id, runIds.get(user)!, user))?.length ?? 0,
      crons: (await store.crons.list(user)).length,
      assistants: (await store.assistants.list(user)).length,
      items: (await store.items.search({ prefix: [], limit: 9, offset: 0 }, user)).length,
      webhooks: (await store.jobs.get('webhook', user)) === null ? 0 : 1,
      turns: (await store.jobs.get('turn', user)) === null ? 0 : 1,
      departures: (await store.jobs.get('departure', user)) === null ? 0 : 1
    })
    const nothing = { runs: 0, feedback: 0, crons: 0, assistants: 0, items: 0, webhooks: 0, turns: 0, departures: 1 }
    t.match(await kept('ann'), nothing)
    t.match(await kept('ben'), { runs: 1, crons: 1, assistants: 1, items: 1, webhooks: 1, turns: 1, departures: 1 })
    t.equal(await messageCount(store, shared.thread_id, 'ben'), 1, 'and nobody is shown what was hers')
    await addEndedRun(store, shared.thread_id)
  })

  test('a session finds its user, unless its credential was signed out', async (t, store) => {
    const user = aUser()
    const [mine, other] = [digest(1), digest(2)]
    await write(store, { name: 'user.create', user })
    t.strictSame(await store.users.ofSession(user.id, mine), user)
    t.equal(await write(store, { name: 'session.deny', digest: mine, expires: 200, now: 100 }), null)
    t.equal(await store.users.ofSession(user.id, mine), 'denied')
    t.strictSame(await store.users.ofSession(user.id, other), user)
    t.equal(await store.users.ofSession('nobody', other), null)
    await write(store, { name: 'session.deny', digest: mine, expires: 200, now: 100 })
    t.equal(await store.users.ofSession(user.id, mine), 'denied', 'twice is as good as once')
  })

  test('signed-out credentials are forgotten when they have ended by themselves, and not before', async (t, store) => {
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const isDenied = async (n: number) => (await store.users.ofSession(user.id, digest(n))) === 'denied'
    const all = Array.from({ length: 30 }, (_, n) => n)
    for (const n of all) await write(store, { name: 'session.deny', digest: digest(n), expires: 100 + n, now: 0 })
    t.equal((await Promise.all(all.map(isDenied))).filter(Boolean).length, 30)
    // Each clears away some of those that have ended, so that a few clear away all.
    for (const n of [40, 41, 42]) {
      await write(store, { name: 'session.deny', digest: digest(n), expires: 900, now: 115 })
    }
    t.strictSame(
      await Promise.all(all.map(isDenied)),
      all.map((n) => n >= 15)
    )
    t.ok(await isDenied(40))
  })

  durable('a signed-out credential stays so over a restart', async (t, store, reopen) => {
    const user = aUser()
    await write(store, { name: 'user.create', user })
    await write(store, { name: 'session.deny', digest: digest(1), expires: 200, now: 100 })
    t.equal(await (await reopen()).users.ofSession(user.id, digest(1)), 'denied')
  })

  durable('users and the first administrator survive a restart', async (t, store, reopen) => {
    const admin = aUser({ system_role: 'admin', needs_setup: true })
    await write(store, { name: 'user.initialize', user: admin })
    const again = await reopen()
    t.strictSame(await again.users.byEmail(admin.email), admin)
    t.equal(await write(again, { name: 'user.initialize', user: aUser({ system_role: 'admin' }) }), 'initialized')
  })
}
