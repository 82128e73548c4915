// The credential revalidator: once a credential, whoever has come with it; what has lost its right is reset, and nothing else.
import t from 'tap'
import { CredentialRevalidator, type Reader } from '../../lib/run/delivery/credential-revalidator.ts'
import { loopTurns } from '../fixtures/until.ts'

/** What stands behind credentials: whether they hold, and how often that was asked. */
class Credentials {
  readonly asked: string[] = []
  readonly revoked = new Set<string>()
  readonly broken = new Set<string>()

  reader(credential: string): Reader {
    const isValid = async () => {
      this.asked.push(credential)
      if (this.broken.has(credential)) throw new Error('no answer')
      return !this.revoked.has(credential)
    }
    return { userId: 'ann', credential, isValid }
  }
}

class Streams {
  readonly open: Reader[] = []
  readonly reset: Reader[] = []
  readonly troubles: unknown[] = []
  readonly revalidator = new CredentialRevalidator({
    readers: () => this.open,
    reset: (isMeant) => void this.reset.push(...this.open.filter(isMeant)),
    onTrouble: (error) => void this.troubles.push(error)
  })
}

t.test('of a crowd that comes with one credential one is asked for, when the turn is over', async (t) => {
  const [credentials, { revalidator }] = [new Credentials(), new Streams()]
  for (let i = 0; i < 100; i++) revalidator.soon(credentials.reader('one'))
  revalidator.soon(credentials.reader('other'))
  t.same(credentials.asked, [])
  await loopTurns()
  t.same(credentials.asked, ['one', 'other'])
  revalidator.soon(credentials.reader('one'))
  await loopTurns()
  t.same(credentials.asked, ['one', 'other', 'one'], 'who comes later is asked for anew')
})

t.test('all streams of a credential that was revoked are reset, and those of nobody else', async (t) => {
  const [credentials, streams] = [new Credentials(), new Streams()]
  for (const credential of ['one', 'other', 'one']) streams.open.push(credentials.reader(credential))
  credentials.revoked.add('one')
  streams.revalidator.soon(streams.open[0]!)
  streams.revalidator.soon(streams.open[1]!)
  await loopTurns()
  t.same(streams.reset, [streams.open[0], streams.open[2]])
})

t.test('a look-up that fails ends no stream, and keeps no other from being asked for', async (t) => {
  const [credentials, streams] = [new Credentials(), new Streams()]
  for (const credential of ['one', 'other']) streams.open.push(credentials.reader(credential))
  credentials.broken.add('one')
  credentials.revoked.add('other')
  for (const reader of streams.open) streams.revalidator.soon(reader)
  await loopTurns()
  t.same(streams.reset, [streams.open[1]])
  t.equal(streams.troubles.length, 1)
})

t.test('who came without a credential, or with one that nothing can end, is not asked for', async (t) => {
  const streams = new Streams()
  // Who asked for the first one all the same would reset it.
  streams.open.push(
    { userId: null, credential: null, isValid: async () => false },
    { userId: 'ann', credential: 'for ever' }
  )
  for (const reader of streams.open) streams.revalidator.soon(reader)
  await loopTurns()
  await streams.revalidator.walk()
  t.same(streams.reset, [])
})

t.test('a walk asks once a credential, a few at a time, and finds what was revoked elsewhere', async (t) => {
  const [credentials, streams] = [new Credentials(), new Streams()]
  for (let i = 0; i < 400; i++) streams.open.push(credentials.reader(`c${i % 200}`))
  credentials.revoked.add('c150')
  const walk = streams.revalidator.walk()
  const atOnce = credentials.asked.length
  t.ok(atOnce > 0 && atOnce < 100, `${atOnce} before anybody else has a turn`)
  await streams.revalidator.walk()
  await walk
  t.equal(credentials.asked.length, 200, 'and no second walk beside it')
  t.same(streams.reset, [streams.open[150], streams.open[350]])
})

t.test('a walk ends when the server does', async (t) => {
  const [credentials, streams] = [new Credentials(), new Streams()]
  for (let i = 0; i < 200; i++) streams.open.push(credentials.reader(`c${i}`))
  const walk = streams.revalidator.walk()
  streams.revalidator.stop()
  await walk
  t.ok(credentials.asked.length < 100)
})
