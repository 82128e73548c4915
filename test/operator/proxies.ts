// The proxies of the operator's document: each block runs as it stands there, but for ports and names, with two processes behind it that
// restart one after the other, and a WebSocket through it.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { parse } from 'yaml'
import { databaseSection } from '../fixtures/backends.ts'
import { startChild } from '../fixtures/child.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, homeOf, Person, signIn, until } from '../fixtures/gateway.ts'

const DOCUMENT = new URL('../../../bin/README.md', import.meta.url)
const FOLDERS = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']

interface Proxy {
  readonly name: 'nginx' | 'caddy'
  /** Writes its configuration; returns the arguments that start it in the foreground. */
  start(block: string, folder: string, port: number): readonly string[]
}

const PROXIES: readonly Proxy[] = [
  {
    name: 'nginx',
    start(block, folder, port) {
      const site = block.replace('listen 80;', `listen 127.0.0.1:${port};`)
      const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (one) => `${one}_temp_path ${folder}/${one};`
      )
      const main = `pid ${folder}/pid; error_log stderr; daemon off; events {}\nhttp { access_log off; ${paths.join(' ')}\n${site}\n}\n`
      writeFileSync(join(folder, 'nginx.conf'), main)
      return ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')]
    }
  },
  {
    name: 'caddy',
    start(block, folder, port) {
      const site = block.replace('chat.example.com', `http://127.0.0.1:${port}`)
      writeFileSync(join(folder, 'Caddyfile'), `{\n  admin off\n}\n${site}`)
      return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
    }
  }
]

function blockOf(name: string): string {
  const text = readFileSync(DOCUMENT, 'utf8')
  const block = new RegExp(`<!-- ${name} -->\\s*\`\`\`\\w*\\n([\\s\\S]*?)\`\`\``).exec(text)?.[1]
  if (block === undefined) throw new Error(`bin/README.md has no block after <!-- ${name} -->`)
  return block
}

/** What the document gives the gateway behind this proxy. */
function serverOf(name: string): object {
  const behind = readFileSync(DOCUMENT, 'utf8').split(`<!-- ${name} -->`)[1]!
  const written = /`server: (\{.*?\})`/.exec(behind)?.[1]
  if (written === undefined) throw new Error(`bin/README.md does not say how to trust ${name}`)
  return parse(written) as object
}

function programOf(name: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, name)).find(existsSync)
}

/** Starts the proxy of the document in front of two ports; returns its URL. */
async function inFront(t: Test, proxy: Proxy, program: string, ports: readonly number[]): Promise<string> {
  const folder = homeOf(t)
  const port = await freePort()
  const block = blockOf(proxy.name).replaceAll(':8001', `:${ports[0]}`).replaceAll(':8002', `:${ports[1]}`)
  const args = proxy.start(block, folder, port)
  const child = spawn(program, args, { stdio: 'ignore', env: { HOME: folder, PATH: process.env.PATH } })
  t.teardown(() => child.kill('SIGTERM'))
  const url = `http://127.0.0.1:${port}`
  await until(
    () =>
      fetch(`${url}/health`)
        .then(({ ok }) => ok)
        .catch(() => false),
    `${proxy.name} answers`
  )
  return url
}

for (const proxy of PROXIES) {
  const program = programOf(proxy.name)
  const skip = program ? false : `there is no ${proxy.name}`
  t.test(`behind ${proxy.name} as documented: no request fails in a rolling restart`, { skip }, async (t) => {
    const home = homeOf(t)
    const config = {
      database: await databaseSection(t, 'postgres'),
      server: { ...serverOf(proxy.name), shutdown_grace_ms: 300 },
      runs: { lease_ms: 2000 },
      title: { enabled: false }
    }
    const ports = [await freePort(), await freePort()]
    const processes = await Promise.all(ports.map((port) => startChild(t, { home, config, port })))
    const url = await inFront(t, proxy, program!, ports)
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
