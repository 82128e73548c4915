// What the log says of a server's life: what was started, where it listens, why and how it stopped, and what was cut.
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { homeOf, signIn } from '../fixtures/gateway.ts'
import { until } from '../fixtures/until.ts'

interface Line {
  readonly msg: string
  readonly [field: string]: unknown
}

function linesOf(log: string): Line[] {
  return log
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
}

t.test('a start, the address, a stop with what it cut, and how long each took are lines of the log', async (t) => {
  const child = await startChild(t, { home: homeOf(t), config: { server: { shutdown_grace_ms: 0 } } })
  const person = await signIn({ url: child.url })
  const stream = await person.stream(await person.thread(), '/demo deltas=100000 rate=50', {
    stream_mode: ['messages-tuple']
  })
  await stream.untilFrames(3)
  await child.stop()
  await until(() => linesOf(child.log).some(({ msg }) => msg === 'stopped'), 'the last line')
  const lines = linesOf(child.log)
  const of = (msg: string) => {
    const found = lines.filter((line) => line.msg.startsWith(msg))
    t.equal(found.length, 1, msg)
    return found[0] ?? { msg: '' }
  }
  t.match(of('starting'), {
    version: /^\d+\.\d+\.\d+/,
    home: child.home,
    database: 'sqlite',
    agent: 'lead',
    pid: Number
  })
  t.match(of('listening'), { url: child.url, took_ms: Number })
  t.match(of('a signal ends the process'), { signal: 'SIGTERM' })
  t.match(of('stopping'), { runs: { running: 1 }, streams: 1 })
  t.match(of('stopped'), { took_ms: Number, cut: { runs: 1, streams: 1 } })
})
