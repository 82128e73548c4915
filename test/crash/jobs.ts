// What is done later, and runs that end their process: whatever is killed, it is done, and not for ever.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { asked, at, homeOf, Person, signIn, until } from '../fixtures/gateway.ts'
import { Child, startChild } from '../fixtures/child.ts'

t.test(
  'a run that ends its process before anything of it is stored is begun three times at most, and then fails',
  async (t) => {
    const home = homeOf(t)
    const begun = join(home, 'begun')
    const path = join(home, 'agent.mjs')
    writeFileSync(
      path,
      `import { appendFileSync } from 'node:fs'
    export default { async start() { appendFileSync(${JSON.stringify(begun)}, 'x'); process.kill(process.pid, 'SIGKILL') } }`
    )
    const config = { agent: { runtime: 'module', path } }
    const first = await startChild(t, { home, config })
    const person = await signIn(first)
    const thread = await person.thread()
    // Its process may be gone before it has answered.
    await person.post(`/api/threads/${thread}/runs`, asked('hello')).catch(() => null)
    await first.exited
    let isGivenUp = false
    for (let starts = 0; !isGivenUp && starts < 4; starts++) {
      const child = new Child(home, { config })
      t.teardown(() => child.kill())
      // It may be gone before it listens.
      await child.listening().catch(() => {})
      const again = new Person(child.url, person.cookies)
      const statusOf = async () => at((await again.get(`/api/threads/${thread}/runs`)).body, 0, 'status')
      const isOver = async () => child.hasExited || (await statusOf().catch(() => null)) === 'error'
      await until(isOver, 'it ends, or its process does')
      isGivenUp = !child.hasExited
    }
    t.ok(isGivenUp)
    t.ok(readFileSync(begun, 'utf8').length <= 3, readFileSync(begun, 'utf8'))
  }
)
