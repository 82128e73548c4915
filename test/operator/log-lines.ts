// What the log says of a server's life: what was started, where it listens, why and how it stopped, and what was cut.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { asked, homeOf, signIn } from '../fixtures/gateway.ts'
import { oldSqlite, SQLITE_STEPS } from '../fixtures/old-schema.ts'
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
  const config = { server: { shutdown_grace_ms: 0 }, agent: { path: './agent.mjs' } }
  const child = await startChild(t, { home: homeOf(t), config })
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
  t.match(of('agent.path is not used'), { level: 40 })
  t.match(of('listening'), { url: child.url, took_ms: Number })
  t.match(of('a signal ends the process'), { signal: 'SIGTERM' })
  t.match(of('stopping'), { runs: { running: 1 }, streams: 1 })
  t.match(of('stopped'), { took_ms: Number, cut: { runs: 1, streams: 1 } })
})

t.test('`log_level: debug` tells of every call of a model and a tool; `info` does not', async (t) => {
  const told = async (log_level: string) => {
    const child = await startChild(t, { home: homeOf(t), config: { log_level } })
    const person = await signIn({ url: child.url })
    await person.post(`/api/threads/${await person.thread()}/runs/wait`, asked('What time is it?'))
    await child.stop()
    await until(() => linesOf(child.log).some(({ msg }) => msg === 'stopped'), 'the last line')
    return linesOf(child.log).filter(({ level }) => level === 20)
  }
  const [lines, none] = await Promise.all([told('debug'), told('info')])
  const ids = { thread_id: String, run_id: String, user_id: String, ms: Number }
  const of = (msg: string) => lines.find((line) => line.msg === msg)
  t.match(of('a model has answered'), { ...ids, model: String, finish_reason: String })
  t.match(of('a tool has answered'), { ...ids, tool: String })
  t.strictSame(none, [])
})

t.test(
  'a start on an older database tells from which schema to which it was brought, and how long it took',
  async (t) => {
    const home = homeOf(t)
    mkdirSync(join(home, 'data'))
    oldSqlite(join(home, 'data', 'colloquy.db'), 5).close()
    const lines = async () => {
      const child = await startChild(t, { home })
      await child.stop()
      await until(() => linesOf(child.log).some(({ msg }) => msg === 'stopped'), 'the last line')
      return linesOf(child.log).filter(({ msg }) => msg.startsWith('the database was migrated'))
    }
    const migrated = { from: 5, to: SQLITE_STEPS.length, breaking: true, duration_ms: Number, backup: String }
    t.match(await lines(), [migrated])
    t.strictSame(await lines(), [], 'once')
  }
)
