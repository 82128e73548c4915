// Lockout and cooldown, on a steered clock.
import t from 'tap'
import { Cooldown, LoginLimiter } from '../../lib/http/admission.ts'

function clock() {
  let ms = 1_000
  return { now: () => ms, pass: (more: number) => (ms += more) }
}
const fail = (limiter: LoginLimiter, address: string, times: number) => {
  for (let i = 0; i < times; i++) limiter.failed(address)
}

t.test('[Auth 9] the fifth failure locks an address, and no other address', async (t) => {
  const limiter = new LoginLimiter(clock())
  fail(limiter, 'a', 4)
  t.equal(limiter.lockedFor('a') > 0, false)
  fail(limiter, 'a', 1)
  t.equal(limiter.lockedFor('a') > 0, true)
  t.equal(limiter.lockedFor('b') > 0, false)
})

t.test('[Auth 9] a success clears the failures', async (t) => {
  const limiter = new LoginLimiter(clock())
  fail(limiter, 'a', 4)
  limiter.succeeded('a')
  fail(limiter, 'a', 4)
  t.equal(limiter.lockedFor('a') > 0, false)
})

t.test('[Auth 9] a lock lasts 300 s, is not prolonged, and takes its failures along', async (t) => {
  const time = clock()
  const limiter = new LoginLimiter(time)
  fail(limiter, 'a', 5)
  time.pass(299_999)
  fail(limiter, 'a', 1)
  t.equal(limiter.lockedFor('a') > 0, true)
  time.pass(1)
  t.equal(limiter.lockedFor('a') > 0, false)
  fail(limiter, 'a', 4)
  t.equal(limiter.lockedFor('a') > 0, false)
})

t.test('failures below the threshold never age', async (t) => {
  const time = clock()
  const limiter = new LoginLimiter(time)
  fail(limiter, 'a', 4)
  time.pass(86_400_000)
  fail(limiter, 'a', 1)
  t.equal(limiter.lockedFor('a') > 0, true)
})

t.test('a full table gives up expired locks first', async (t) => {
  const time = clock()
  const limiter = new LoginLimiter({ ...time, size: 4 })
  fail(limiter, 'expired', 5)
  time.pass(300_000)
  fail(limiter, 'locked', 5)
  fail(limiter, 'two', 4)
  fail(limiter, 'three', 4)
  fail(limiter, 'new', 1)
  fail(limiter, 'two', 1)
  fail(limiter, 'three', 1)
  for (const kept of ['locked', 'two', 'three']) t.equal(limiter.lockedFor(kept) > 0, true, kept)
})

t.test('a full table gives up the half with the earliest locks, unlocked addresses first', async (t) => {
  const time = clock()
  const limiter = new LoginLimiter({ ...time, size: 4 })
  fail(limiter, 'early', 5)
  time.pass(1_000)
  fail(limiter, 'late', 5)
  fail(limiter, 'later', 5)
  fail(limiter, 'open', 4)
  fail(limiter, 'new', 1)
  t.strictSame(
    ['early', 'late', 'later'].map((one) => limiter.lockedFor(one) > 0),
    [false, true, true]
  )
  fail(limiter, 'open', 1)
  t.equal(limiter.lockedFor('open') > 0, false, 'its four failures are forgotten')
})

t.test('ten thousand addresses stay within the table', async (t) => {
  const limiter = new LoginLimiter(clock())
  fail(limiter, 'first', 5)
  for (let i = 0; i < 25_000; i++) limiter.failed(`10.0.${i >> 8}.${i & 255}`)
  t.equal(limiter.lockedFor('first') > 0, true, 'a flood of single failures does not open a lock')
})

t.test('[Auth 10] one answer a minute, with the seconds to wait', async (t) => {
  const time = clock()
  const cooldown = new Cooldown(time)
  t.equal(cooldown.ask('a'), 0)
  t.equal(cooldown.ask('a'), 60)
  t.equal(cooldown.ask('b'), 0)
  time.pass(2_400)
  t.equal(cooldown.ask('a'), 57)
  time.pass(57_500)
  t.equal(cooldown.ask('a'), 1)
  time.pass(100)
  t.equal(cooldown.ask('a'), 0)
  t.equal(cooldown.ask('a'), 60)
})

t.test('[Auth 10] a refused question does not start the window again', async (t) => {
  const time = clock()
  const cooldown = new Cooldown(time)
  cooldown.ask('a')
  for (let i = 0; i < 59; i++) {
    time.pass(1_000)
    t.not(cooldown.ask('a'), 0)
  }
  time.pass(1_000)
  t.equal(cooldown.ask('a'), 0)
})

t.test('[Auth 10] a full table gives up what is over, then the oldest half', async (t) => {
  const time = clock()
  const cooldown = new Cooldown({ ...time, size: 4 })
  cooldown.ask('over')
  time.pass(60_000)
  for (const one of ['a', 'b', 'c']) cooldown.ask(one)
  t.equal(cooldown.ask('d'), 0)
  t.not(cooldown.ask('a'), 0, 'only what was over is gone')
  t.equal(cooldown.ask('e'), 0)
  t.strictSame(
    ['c', 'd', 'e'].map((one) => cooldown.ask(one) > 0),
    [true, true, true]
  )
  t.equal(cooldown.ask('a'), 0, 'the oldest half is forgotten')
})

t.test('[Auth 10] after 10,500 other addresses the first one is answered again', async (t) => {
  const cooldown = new Cooldown(clock())
  cooldown.ask('first')
  for (let i = 0; i < 10_500; i++) cooldown.ask(`10.0.${i >> 8}.${i & 255}`)
  t.equal(cooldown.ask('first'), 0)
})
