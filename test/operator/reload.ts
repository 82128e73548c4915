// The configuration is read again by SIGHUP, while everything goes on.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { homeOf, listIn, signIn, textIn, until } from '../fixtures/gateway.ts'

const modelsOf = (...names: string[]) => names.map((name) => ({ name, model: name, base_url: 'http://127.0.0.1:9/v1' }))

t.test(
  'SIGHUP takes models and trusted proxies, names what it leaves, and takes nothing of a wrong file',
  async (t) => {
    const home = homeOf(t)
    const child = await startChild(t, { home, config: { models: modelsOf('old') } })
    const person = await signIn({ url: child.url })
    const names = async () => listIn((await person.get('/api/models')).body, 'models').map((one) => textIn(one, 'name'))
    const reload = async (options: object, line: string) => {
      writeFileSync(join(home, 'colloquy.yaml'), JSON.stringify(options))
      const before = child.log.split(line).length
      child.process.kill('SIGHUP')
      await until(() => child.log.split(line).length > before, line)
    }
    await reload({ models: modelsOf('new', 'more'), streams: { per_user: 7 } }, 'the configuration was read again')
    t.strictSame(await names(), ['new', 'more'])
    t.match(child.log, '"left":["streams"]')
    await reload({ models: [{ name: 'broken' }] }, 'everything stays as it is')
    t.strictSame(await names(), ['new', 'more'])
    t.match(child.log, 'models[0].model is missing.')
  }
)
