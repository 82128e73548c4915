// The proxies of the operator's document: each block runs as it stands there, but for ports and names, with two processes behind it that
// restart one after the other, and a WebSocket through it.
import t from 'tap'
import { WebSocket } from 'ws'
import { databaseSection } from '../fixtures/backends.ts'
import { startChild } from '../fixtures/child.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, homeOf, Person, signIn, until } from '../fixtures/gateway.ts'
import { serverBehind } from '../fixtures/manual.ts'
import { CADDY, inFront, NGINX, programOf } from '../fixtures/reverse-proxy.ts'

for (const proxy of [NGINX, CADDY]) {
  const skip = programOf(proxy) ? false : `there is no ${proxy.name}`
  t.test(`behind ${proxy.name} as documented: no request fails in a rolling restart`, { skip }, async (t) => {
    const home = homeOf(t)
    const config = {
      database: await databaseSection(t, 'postgres'),
      server: { ...serverBehind(proxy.name), shutdown_grace_ms: 300 },
      runs: { lease_ms: 2000 },
      title: { enabled: false }
    }
    const ports = [await freePort(), await freePort()]
    const processes = await Promise.all(ports.map((port) => startChild(t, { home, config, port })))
    const { url } = await inFront(t, proxy, await freePort(), ports)
    await until(async () => (await fetch(`${url}/health`)).ok, `${proxy.name} answers`)
    const person = await signIn({ url })

    await t.test('a WebSocket passes', async (t) => {
      const socket = new WebSocket(`${url.replace('http', 'ws')}/api/threads/${await person.thread()}/stream/events`, {
        headers: { cookie: person.headers().cookie! }
      })
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
      t.pass('it is open')
      socket.terminate()
    })

    const bad: string[] = []
    let [count, isOver] = [0, false]
    const asking = async (): Promise<void> => {
      while (!isOver) {
        const own = new Person(url, person.cookies)
        const thread = await own.post('/api/threads').catch((error: unknown) => String(error))
        if (typeof thread === 'string' || thread.status !== 200) bad.push(`thread: ${answerIn(thread)}`)
        else {
          const { thread_id } = thread.body as { thread_id: string }
          const run = await own
            .post(`/api/threads/${thread_id}/runs`, asked('/demo deltas=1 rate=0'))
            .catch((error: unknown) => String(error))
          if (typeof run === 'string' || run.status !== 200) bad.push(`run: ${answerIn(run)}`)
        }
        count++
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
    const all = [asking(), asking()]
    for (const [i, child] of processes.entries()) {
      await child.stop()
      const before = count
      await until(() => count > before + 5, 'requests while it is down')
      await startChild(t, { home, config, port: ports[i]! })
      await until(() => count > before + 15, 'requests when it is back')
    }
    isOver = true
    await Promise.all(all)
    t.strictSame(bad, [], `${count} times`)
  })
}

function answerIn(answer: string | { readonly status: number; readonly text: string }): string {
  return typeof answer === 'string' ? answer : `${answer.status} ${answer.text.slice(0, 200)}`
}
