// Whoever waits for the next run of a thread is told of it, on whatever process it is admitted.
import t from 'tap'
import { ThreadWatchers } from '../../lib/run/lifecycle/run-readers.ts'
import type { PeerMessage } from '../../lib/store/store.ts'
import { Clock } from '../fixtures/clock.ts'

/** Two processes that tell each other everything at once, but what `isLost`. */
function processes(isLost: (message: PeerMessage) => boolean = () => false) {
  const told: string[] = []
  const [a, b]: [ThreadWatchers, ThreadWatchers] = [
    new ThreadWatchers({ tell: (_, message) => hear(b, 'a', message) }),
    new ThreadWatchers({ tell: (_, message) => hear(a, 'b', message) })
  ]
  function hear(to: ThreadWatchers, from: string, message: PeerMessage): void {
    told.push(`${from} ${message.kind}`)
    if (isLost(message)) return
    if (message.kind === 'watch') to.watched(from, message.threads)
    if (message.kind === 'admitted') to.notify(message.thread)
  }
  t.teardown(() => [a, b].map((one) => one.stop()))
  return { a, b, told }
}

t.test('who waits here is told of a run that another process admits, by one message', async (t) => {
  const { a, b, told } = processes()
  let count = 0
  const leave = a.watch('thread', () => count++)
  a.watch('thread', () => {})
  t.strictSame(told, ['a watch', 'b admitted'], 'what was admitted before it said so it may have missed')
  t.equal(count, 1)
  b.admitted('thread')
  t.equal(count, 2)
  b.admitted('other')
  t.equal(told.length, 3, 'nobody is told of a thread that nobody waits for')
  leave()
  b.admitted('thread')
  t.equal(count, 2)
})

t.test('who says again that somebody waits there has missed nothing', async (t) => {
  const { a, b, told } = processes()
  a.watch('thread', () => {})
  b.watched('a', ['thread'])
  b.watched('a', ['thread'])
  t.equal(told.filter((one) => one === 'b admitted').length, 1)
})

t.test('a message that is lost costs a look: all look when something may be lost', async (t) => {
  const { a, b } = processes(({ kind }) => kind === 'admitted')
  let count = 0
  a.watch('thread', () => count++)
  b.admitted('thread')
  t.equal(count, 0)
  a.notifyAll()
  t.equal(count, 1)
})

t.test('it is said again, looked for, and forgotten by itself, in messages that are short', async (t) => {
  const clock = Clock.stopFor(t)
  const sizes: number[] = []
  let said = 0
  const tell = (_: string | null, message: PeerMessage) => {
    sizes.push(JSON.stringify(message).length)
    if (message.kind === 'watch') said += message.threads.length
  }
  const watchers = new ThreadWatchers({ tell })
  let looks = 0
  for (let n = 0; n < 200; n++) watchers.watch(`${n}`.padStart(128, 'x'), () => looks++)
  t.same([said, looks], [200, 0])
  watchers.watched('b', ['thread'])
  t.equal(watchers.size, 201)
  await clock.pass(5000)
  t.same([said, looks], [400, 200], 'once in five seconds')
  t.ok(Math.max(...sizes) < 8000)
  watchers.forgetLate()
  t.equal(watchers.size, 201)
  await clock.pass(20_000)
  watchers.forgetLate()
  t.equal(watchers.size, 200)
  watchers.stop()
})
