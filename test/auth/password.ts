// Password hashes: every form there was, the queue that hashing stands in, and what a wrong password may cost.
import { createHash } from 'node:crypto'
import bcrypt from 'bcrypt'
import t, { type Test } from 'tap'
import { HashingBusy, hashPassword, isTooLong, needsRehash, verifyPassword } from '../../lib/auth/password.ts'

const PASSWORD = 'correct-horse-42'
/** bcrypt's cheapest: for rules that are not about time. */
const CHEAP = 4

const v1 = await bcrypt.hash(PASSWORD, CHEAP)
const v2 = await bcrypt.hash(createHash('sha256').update(PASSWORD).digest('base64'), CHEAP)

/** New hashes of this test are cheap too. */
function hashCheaply(t: Test): void {
  const { hash } = bcrypt
  Object.assign(bcrypt, { hash: (data: string) => hash(data, CHEAP) })
  t.teardown(() => Object.assign(bcrypt, { hash }))
}

t.test('a new hash is 2$ and bcrypt of cost 12, at most 128 characters, another one each time', async (t) => {
  const [one, other] = await Promise.all([hashPassword(PASSWORD), hashPassword(PASSWORD)])
  t.match(one, /^2\$\$2b\$12\$[./A-Za-z0-9]{53}$/)
  t.not(one, other)
  t.ok(one.length <= 128)
  t.ok(await verifyPassword(PASSWORD, one))
  t.notOk(await verifyPassword('correct-horse-43', one))
  t.notOk(needsRehash(one))
})

t.test('[User 1] every form that there was is read, and only v1 asks to be renewed', async (t) => {
  const forms = { 1: [v1, `1$${v1}`, `$dfv1$${v1}`], 2: [`2$${v2}`, `$dfv2$${v2}`] }
  for (const [version, hashes] of Object.entries(forms))
    for (const hash of hashes) {
      t.ok(await verifyPassword(PASSWORD, hash), hash)
      t.notOk(await verifyPassword(`${PASSWORD}x`, hash), `${hash}, wrong password`)
      t.equal(needsRehash(hash), version === '1', `${hash}, to be renewed`)
    }
  for (const revision of ['$2a$', '$2y$'])
    t.ok(await verifyPassword(PASSWORD, v1.replace('$2b$', revision)), `bcrypt as ${revision}`)
})

t.test('[User 2] to a malformed hash no password belongs, and nothing is thrown', async (t) => {
  const malformed = [
    '',
    'garbage',
    '2$',
    '$dfv2$',
    `$dfv9$${v1}`,
    `3$${v2}`,
    `2$2$${v2}`,
    v1.slice(0, -1),
    `${v1}x`,
    `${v1}\n`,
    v1.replace('$2b$', '$2x$'),
    v1.replace('$04$', '$99$'),
    v1.replace('$04$', '$03$'),
    // Correct, but would take days.
    v1.replace('$04$', '$31$'),
    v1.replace(/.$/, '\u0000'),
    v1.replace(/.$/, 'ä')
  ]
  const answers = await Promise.all(malformed.map((hash) => verifyPassword(PASSWORD, hash)))
  for (const [index, answer] of answers.entries()) t.equal(answer, false, JSON.stringify(malformed[index]))
})

t.test('a password counts whole: beyond 72 bytes, beyond a NUL, in every character', async (t) => {
  hashCheaply(t)
  const pairs = [
    [`${'x'.repeat(90)}1`, `${'x'.repeat(90)}2`],
    ['before\u0000after-1', 'before\u0000after-2'],
    ['pass\u00e9-word', 'passe\u0301-word'],
    ['Trailing-1', 'Trailing-1 ']
  ] as const
  for (const [right, wrong] of pairs) {
    const hash = await hashPassword(right)
    t.ok(await verifyPassword(right, hash), JSON.stringify(right))
    t.notOk(await verifyPassword(wrong, hash), JSON.stringify(wrong))
  }
})

t.test('a password above 1 KiB is refused before it is hashed; bytes count, not characters', async (t) => {
  t.notOk(isTooLong('x'.repeat(1024)))
  t.ok(isTooLong('x'.repeat(1025)))
  t.ok(isTooLong('é'.repeat(513)))
  const gate = () => t.fail('its turn must not come')
  t.equal(await verifyPassword('x'.repeat(1 << 20), v1, { lastCheck: gate }), false)
  await t.rejects(hashPassword('x'.repeat(1 << 20)), RangeError)
})

t.test('no user, or a malformed hash, costs about as much time as a wrong password (at least a quarter)', async (t) => {
  const hash = await hashPassword(PASSWORD)
  /** Of the processor, in µs: what a wrong password takes by the clock depends on who else is at work. */
  const time = async (against: string | null) => {
    const from = process.cpuUsage()
    t.equal(await verifyPassword('not-this-one-1', against), false)
    return process.cpuUsage(from).user
  }
  const wrong = await time(hash)
  for (const against of [null, '', 'garbage', '2$']) t.ok((await time(against)) > wrong / 4, JSON.stringify(against))
})

t.test('two hashes are made at once, the others wait for their turn', async (t) => {
  let begun = 0
  const all = Array.from({ length: 6 }, () => verifyPassword(PASSWORD, v1, { lastCheck: () => void begun++ }))
  // The turns are given in this turn of the loop.
  for (let i = 0; i < 10; i++) await null
  t.equal(begun, 2)
  t.strictSame(await Promise.all(all), Array(6).fill(true))
  t.equal(begun, 6)
})

t.test(
  '64 of an address may wait, one more is refused at once; afterwards it works again, also for unknown users',
  async (t) => {
    const all = Array.from({ length: 66 }, () => verifyPassword(PASSWORD, v1))
    await t.rejects(verifyPassword(PASSWORD, v1), HashingBusy)
    await t.rejects(verifyPassword(PASSWORD, null), HashingBusy)
    t.strictSame(await Promise.all(all), Array(66).fill(true))
    t.equal(await verifyPassword(PASSWORD, null), false)
    t.ok(await verifyPassword(PASSWORD, v1))
  }
)

t.test('a gate that refuses costs nothing and gives its place to the next', async (t) => {
  const refuse = () => {
    throw new Error('locked')
  }
  const refused = Array.from({ length: 10 }, () => verifyPassword(PASSWORD, v1, { lastCheck: refuse }))
  const after = verifyPassword(PASSWORD, v1)
  for (const one of await Promise.allSettled(refused))
    t.match(one, { status: 'rejected', reason: { message: 'locked' } })
  t.ok(await after)
})

t.test(
  '[18.A.5] addresses have their turns one after the other, and who makes hashes keeps nobody from being looked at',
  async (t) => {
    const over: string[] = []
    const note = (name: string) => () => void over.push(name)
    const flood = Array.from({ length: 16 }, () =>
      verifyPassword(PASSWORD, v1, { address: 'hostile' }).then(note('hostile'))
    )
    const makers = Array.from({ length: 8 }, (_, n) =>
      hashPassword(PASSWORD, { address: `maker ${n}` }).then(note('maker'))
    )
    await verifyPassword(PASSWORD, v1, { address: 'honest' }).then(note('honest'))
    // Which of those at work ends first is the processor's affair.
    t.ok(over.filter((name) => name === 'hostile').length <= 6, 'behind those that were under way, and one turn')
    t.ok(over.filter((name) => name === 'maker').length < 8)
    await Promise.all([...flood, ...makers])
  }
)
