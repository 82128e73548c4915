// Does a stock nginx cut a silent stream, hold its first byte back, or answer 502 when connections are kept? With the configuration that
// the README recommends, and with nothing but a proxy_pass. Needs nginx: `--nginx FILE`, or one in the PATH.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Options } from './options.ts'
import { type Row, report, short } from './report.ts'
import { Readers, Server } from './rig.ts'
import { freePort } from '../test/fixtures/free-port.ts'

const README = fileURLToPath(new URL('../../bin/README.md', import.meta.url))
const AT_ONCE = 16

/** The block of the README, with the addresses of this bench. */
function recommended(port: number, upstream: string): string {
  const block = /<!-- nginx -->\n```nginx\n([\s\S]*?)```/.exec(readFileSync(README, 'utf8'))?.[1]
  if (!block) throw new Error('the README has no nginx recipe')
  return block.replace('127.0.0.1:8001', upstream).replace('listen 80;', `listen 127.0.0.1:${port};`)
}

function bare(port: number, upstream: string): string {
  return `server { listen 127.0.0.1:${port}; location / { proxy_pass http://${upstream}; } }`
}

class Nginx {
  readonly #child: ChildProcess
  readonly #folder: string

  constructor(binary: string, http: string) {
    const folder = mkdtempSync(join(tmpdir(), 'colloquy-bench-nginx-'))
    const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`
    )
    // As Debian has it: gzip on, times and buffers as they are by default.
    const config = `daemon off; pid ${folder}/pid; error_log ${folder}/error.log; events { worker_connections 1024; }
http { access_log off; gzip on; gzip_proxied any; gzip_types text/plain text/event-stream application/json; ${temp.join(' ')}
${http} }`
    writeFileSync(join(folder, 'nginx.conf'), config)
    this.#folder = folder
    this.#child = spawn(binary, ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log'), '-p', folder], {
      stdio: 'inherit'
    })
  }

  async stop(): Promise<void> {
    const gone = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGTERM')
    await gone
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

interface Silence {
  /** From the word to begin to the first frame, in ms. */
  readonly firstMs: number
  readonly frames: number
}

/** Reads a run that says a word, is silent, and says another; the silence is the run's. */
async function silent(server: Server, url: string, path: string): Promise<Silence> {
  const readers = new Readers()
  try {
    const { done } = await readers.open({ url, headers: server.headers }, path, 1)
    const { frames, firstMs } = await done
    return { frames, firstMs: firstMs[0] ?? Number.NaN }
  } finally {
    readers.stop()
  }
}

/** Asks so often over kept connections; counts the answers by status. */
async function flood(
  url: string,
  headers: Readonly<Record<string, string>>,
  count: number
): Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  const statuses = new Map<number, number>()
  let left = count
  const worker = async () => {
    while (left-- > 0) {
      const status = await new Promise<number>((resolve) => {
        const asked = request(`${url}/api/v1/auth/me`, { headers, agent }, (answer) => {
          answer.resume()
          answer.on('end', () => resolve(answer.statusCode ?? 0))
        })
        asked.on('error', () => resolve(0))
        asked.end()
      })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      // Now and then a pause, in which connections grow old.
      if (left % 5000 === 0) await sleep(500)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  agent.destroy()
  return statuses
}

export async function proxy({ quick, nginx = 'nginx' }: Options): Promise<void> {
  // It tells its version on stderr.
  const { stderr: version, error } = spawnSync(nginx, ['-v'], { encoding: 'utf8' })
  if (error) throw new Error(`there is no nginx at ${nginx}: name one with --nginx`)
  const silenceS = quick ? 12 : 100
  const requests = quick ? 2000 : 20_000
  const server = await Server.gateway({ server: { trusted_proxies: ['127.0.0.1'] } })
  const ports = { recommended: await freePort(), bare: await freePort() }
  const upstream = new URL(server.url).host
  const proxies = new Nginx(nginx, `${recommended(ports.recommended, upstream)}\n${bare(ports.bare, upstream)}`)
  const rows: Row[] = []
  try {
    await sleep(500)
    const script = { deltas: 2, size: 20, rate: 1 / silenceS }
    const urls = {
      'no proxy': server.url,
      'nginx as recommended': `http://127.0.0.1:${ports.recommended}`,
      'nginx, proxy_pass alone': `http://127.0.0.1:${ports.bare}`
    }
    const path = await server.run(script)
    server.go()
    const silences = await Promise.all(Object.values(urls).map((url) => silent(server, url, path)))
    for (const [i, [name, url]] of Object.entries(urls).entries()) {
      const statuses = await flood(url, server.headers, requests)
      rows.push({
        '': name,
        'first frame ms': short(silences[i]!.firstMs),
        [`frames over ${silenceS} s of silence`]: `${silences[i]!.frames} of 3 or more`,
        requests,
        'answers by status': [...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')
      })
    }
  } finally {
    await proxies.stop()
    await server.stop()
  }
  report('Does a stock nginx cut, hold back or refuse?', { silenceS, requests, nginx: version.trim() }, rows)
}
