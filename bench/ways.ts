// `npm run bench -- ways`: which files and functions of lib/ a delta, a new run, a search or a rejoin goes through, as V8 counts them on
// the main thread; the thread that writes SQLite comes on top. The gateway, its model and its reader share this process, and only calls
// into lib/ count.
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { loadConfig } from '../lib/config/config.ts'
import { startGateway } from '../lib/gateway.ts'
import { openStore } from '../lib/store/open.ts'
import type { Store } from '../lib/store/store.ts'
import { VISITOR } from './rig.ts'

/** Each way is taken so often; a function belongs to it that ran at least half of the times, so timers of others do not. */
const TIMES = 8
/** By then what has ended is in the index of words, which no way waits for, in ms. */
const INDEXED_MS = 600
/** Sources lie beside the build this file was compiled into. */
const SOURCES = fileURLToPath(new URL('../../lib/', import.meta.url))

export interface WayFile {
  /** Below lib/, without ending. */
  readonly name: string
  readonly functions: number
  /** From its first line: what it is. */
  readonly about: string
}

export interface Way {
  readonly name: WayName
  readonly files: readonly WayFile[]
  readonly functions: number
}

/** The most that a way may take. A way that got shorter lowers its limit. */
export const LIMITS = {
  'one delta, to a socket and to the disk': { files: 26, functions: 105 },
  'POST runs/stream, until its first bytes': { files: 109, functions: 596 },
  'rejoining a live run, until its first bytes': { files: 45, functions: 188 },
  'rejoining an ended run, to its end': { files: 51, functions: 246 },
  'POST threads/search': { files: 37, functions: 150 }
} as const

export type WayName = keyof typeof LIMITS

// ------------------------------------------------------------------------------------------------------ counting

interface Covered {
  readonly url: string
  readonly functions: readonly {
    readonly functionName: string
    readonly ranges: readonly { readonly startOffset: number; readonly count: number }[]
  }[]
}

class Counter {
  readonly #session = new Session()

  async start(): Promise<void> {
    this.#session.connect()
    await this.#session.post('Profiler.enable')
    await this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  }

  /** The functions of lib/ that ran since the last call, as `file function@offset`. */
  async take(): Promise<Set<string>> {
    const { result } = (await this.#session.post('Profiler.takePreciseCoverage')) as { result: readonly Covered[] }
    const found = new Set<string>()
    for (const { url, functions } of result) {
      const file = /\/dist\/lib\/(.+)\.js$/.exec(url)?.[1]
      if (file === undefined) continue
      for (const { functionName, ranges } of functions)
        if (ranges[0]!.count > 0) found.add(`${file} ${functionName}@${ranges[0]!.startOffset}`)
    }
    return found
  }

  async stop(): Promise<void> {
    await this.#session.post('Profiler.stopPreciseCoverage')
    this.#session.disconnect()
  }
}

function wayOf(name: WayName, taken: readonly ReadonlySet<string>[]): Way {
  const times = new Map<string, number>()
  for (const functions of taken) for (const one of functions) times.set(one, (times.get(one) ?? 0) + 1)
  const byFile = new Map<string, number>()
  for (const [key, count] of times) {
    const file = key.slice(0, key.indexOf(' '))
    if (count * 2 >= taken.length) byFile.set(file, (byFile.get(file) ?? 0) + 1)
  }
  const files = [...byFile].map(([file, functions]): WayFile => ({ name: file, functions, about: aboutOf(file) }))
  return { name, files, functions: files.reduce((sum, one) => sum + one.functions, 0) }
}

/** The first sentence of a file. */
function aboutOf(file: string): string {
  const text = readFileSync(join(SOURCES, `${file}.ts`), 'utf8')
  const [head = ''] = text.replace(/^(\/\/ .*)\n\/\/ /, '$1 ').split('\n')
  return head.slice(3).replace(/[.:;] .*$|[.:]$/, '')
}

// ---------------------------------------------------------------------------------------------------- the parts

/** A chat-completions server that says a word when it is asked to. */
class WayModel {
  readonly #server: Server
  #open: ServerResponse | null = null

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(): Promise<WayModel> {
    const server = createServer()
    const model = new WayModel(server)
    server.on('request', (req: IncomingMessage, res: ServerResponse) => {
      req.resume()
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      model.#open = res
      server.emit('asked')
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return model
  }

  get url(): string {
    // It listens on a port: its address is an object.
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  /** Resolves when it was asked and may speak. */
  async asked(): Promise<void> {
    if (!this.#open) await once(this.#server, 'asked')
  }

  say(content: string): void {
    this.#open?.write(`data: ${JSON.stringify({ id: 'one', choices: [{ index: 0, delta: { content } }] })}\n\n`)
  }

  end(): void {
    const last = { id: 'one', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    this.#open?.end(`data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`)
    this.#open = null
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

/** A store that lets one wait for its next commit. */
class WatchedStore {
  #waiting: (() => void)[] = []

  watch(store: Store): Store {
    const { apply } = store
    return Object.assign(store, {
      apply: async (groups: Parameters<Store['apply']>[0]) => {
        const outcomes = await apply.call(store, groups)
        for (const resolve of this.#waiting.splice(0)) resolve()
        return outcomes
      }
    })
  }

  get committed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}

/** A response that is read as it comes. */
class Reader {
  #text = ''
  #isOver = false
  readonly #response: IncomingMessage

  constructor(response: IncomingMessage) {
    this.#response = response
    response.setEncoding('utf8')
    response.on('data', (piece: string) => {
      this.#text += piece
    })
    response.on('end', () => {
      this.#isOver = true
    })
    response.on('error', () => {})
  }

  async until(words: string): Promise<void> {
    while (!this.#text.includes(words)) await once(this.#response, 'data')
  }

  async begun(): Promise<void> {
    if (this.#text === '') await once(this.#response, 'data')
  }

  async text(): Promise<string> {
    if (!this.#isOver) await once(this.#response, 'end')
    return this.#text
  }

  get location(): string {
    return String(this.#response.headers['content-location'])
  }

  leave(): void {
    this.#response.destroy()
  }
}

class Visitor {
  readonly #url: string
  #headers: Record<string, string> = {}

  constructor(url: string) {
    this.#url = url
  }

  async signIn(): Promise<void> {
    const response = await this.#send('POST', '/api/v1/auth/initialize', VISITOR)
    const cookies = (response.headers['set-cookie'] ?? []).map((line) => line.split(';')[0]!)
    const csrf = cookies.find((cookie) => cookie.startsWith('csrf_token='))
    this.#headers = { cookie: cookies.join('; '), 'x-csrf-token': csrf?.slice('csrf_token='.length) ?? '' }
    response.resume()
  }

  async ask(method: string, path: string, body?: object): Promise<Reader> {
    return new Reader(await this.#send(method, path, body))
  }

  async thread(): Promise<string> {
    const made = await this.ask('POST', '/api/threads', {})
    return (JSON.parse(await made.text()) as { thread_id: string }).thread_id
  }

  start(thread: string): Promise<Reader> {
    const input = { messages: [{ role: 'user', content: 'Go' }] }
    return this.ask('POST', `/api/threads/${thread}/runs/stream`, { input, stream_mode: ['messages-tuple'] })
  }

  async #send(method: string, path: string, body?: object): Promise<IncomingMessage> {
    const json = { 'content-type': 'application/json' }
    const sent = request(`${this.#url}${path}`, { method, headers: { ...this.#headers, ...(body && json) } })
    sent.end(body && JSON.stringify(body))
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    if ((response.statusCode ?? 500) >= 300) throw new Error(`${method} ${path} answered ${response.statusCode}`)
    return response
  }
}

// ------------------------------------------------------------------------------------------------------ the ways

interface Rig {
  readonly visitor: Visitor
  readonly model: WayModel
  readonly store: WatchedStore
  readonly counter: Counter
}

/** What was done beforehand is over: acknowledged, and its sockets are quiet. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}

type Sets = ReadonlySet<string>[]

/** One model's delta at a time, each seen by its reader and committed before the next. */
async function deltas({ visitor, model, store, counter }: Rig): Promise<Sets> {
  const reader = await visitor.start(await visitor.thread())
  await model.asked()
  const taken: Sets = []
  for (let n = 0; n < TIMES + 2; n++) {
    await counter.take()
    const committed = store.committed
    model.say(`word${n};`)
    await Promise.all([committed, reader.until(`word${n};`)])
    await settle()
    taken.push(await counter.take())
  }
  model.end()
  await reader.text()
  // The first ones make what the others use.
  return taken.slice(2)
}

async function repeated({ counter }: Rig, once: () => Promise<() => Promise<void>>): Promise<Sets> {
  const taken: Sets = []
  for (let n = 0; n < TIMES + 2; n++) {
    const after = await once()
    taken.push(await counter.take())
    await after()
    await settle()
  }
  return taken.slice(2)
}

function newRuns(rig: Rig): Promise<Sets> {
  const { visitor, model, counter } = rig
  return repeated(rig, async () => {
    const thread = await visitor.thread()
    await settle()
    await counter.take()
    const reader = await visitor.start(thread)
    await reader.begun()
    return async () => {
      await model.asked()
      model.end()
      await reader.text()
      await setTimeout(INDEXED_MS)
    }
  })
}

async function liveReaders(rig: Rig): Promise<Sets> {
  const { visitor, model, counter } = rig
  const first = await visitor.start(await visitor.thread())
  await model.asked()
  model.say('word;')
  await first.until('word;')
  const taken = await repeated(rig, async () => {
    await settle()
    await counter.take()
    const reader = await visitor.ask('GET', `${first.location}/stream`)
    await reader.begun()
    return async () => reader.leave()
  })
  model.end()
  await first.text()
  return taken
}

async function endedReaders(rig: Rig): Promise<Sets> {
  const { visitor, model, counter } = rig
  const first = await visitor.start(await visitor.thread())
  await model.asked()
  for (let n = 0; n < 98; n++) model.say(`word${n};`)
  model.end()
  await first.text()
  return repeated(rig, async () => {
    await settle()
    await counter.take()
    const reader = await visitor.ask('GET', `${first.location}/stream`)
    await reader.text()
    return async () => {}
  })
}

async function searches(rig: Rig): Promise<Sets> {
  // The words of the runs before it are put into the index first.
  await setTimeout(INDEXED_MS)
  return repeated(rig, async () => {
    await settle()
    await rig.counter.take()
    await (await rig.visitor.ask('POST', '/api/threads/search', {})).text()
    return async () => {}
  })
}

const WAYS: Readonly<Record<WayName, (rig: Rig) => Promise<Sets>>> = {
  'one delta, to a socket and to the disk': deltas,
  'POST runs/stream, until its first bytes': newRuns,
  'rejoining a live run, until its first bytes': liveReaders,
  'rejoining an ended run, to its end': endedReaders,
  'POST threads/search': searches
}

const silent = (): void => {}

/** Takes each way, and counts. */
export async function countWays(): Promise<Way[]> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-ways-'))
  const model = await WayModel.start()
  const models = [{ name: 'main', base_url: model.url, api_key: 'k', model: 'way' }]
  const sections = {
    models,
    title: { enabled: false },
    memory: { enabled: false },
    streams: { heartbeat_ms: 60_000 }
  }
  const file = join(home, 'colloquy.yaml')
  writeFileSync(file, JSON.stringify(sections))
  const config = loadConfig({ file, home, port: 0, env: {}, cwd: home })
  const watched = new WatchedStore()
  const store = await openStore(config, silent)
  const log = { info: silent, warn: silent, error: silent }
  const gateway = await startGateway({ config, log, store: watched.watch(store) })
  const counter = new Counter()
  try {
    await counter.start()
    const rig: Rig = { visitor: new Visitor(gateway.url), model, store: watched, counter }
    await rig.visitor.signIn()
    const found: Way[] = []
    // Names of a record of these names.
    for (const name of Object.keys(WAYS) as WayName[]) found.push(wayOf(name, await WAYS[name](rig)))
    return found
  } finally {
    await counter.stop()
    model.stop()
    await gateway.stop()
    await store.close()
    rmSync(home, { recursive: true, force: true })
  }
}

// ------------------------------------------------------------------------------------------------------ showing

/** Ways that are shown file by file. */
const SHOWN_WHOLE: readonly WayName[] = ['one delta, to a socket and to the disk', 'POST threads/search']
const BEGIN = '<!-- ways -->\n'
const END = '<!-- /ways -->'

/** The part of lib/README.md that shows the ways. */
export function shownIn(readme: string): string {
  return readme.slice(readme.indexOf(BEGIN) + BEGIN.length, readme.indexOf(END))
}

/** The files that a README shows of a way, in its order: that in which they are passed. */
export function filesIn(shown: string, way: WayName): string[] {
  const [, section = ''] = shown.split(`### ${way}\n`)
  return [...(section.split('```')[1] ?? '').matchAll(/^(\S+)\.ts /gm)].map(([, name]) => name!)
}

/** The ways as text. Files keep the order in which `before` has them; new ones come last, to be moved to their place. */
export function show(ways: readonly Way[], before: string): string {
  const rows = ways.map(
    ({ name, files, functions }) =>
      `| ${name} | ${files.length} | ${functions} | ${LIMITS[name].files} | ${LIMITS[name].functions} |`
  )
  const table = ['| Way | Files | Functions | At most files | functions |', '|---|---|---|---|---|', ...rows].join('\n')
  const lists = ways.filter(({ name }) => SHOWN_WHOLE.includes(name)).map((way) => listOf(way, before))
  return `\n${table}\n\n${lists.join('\n\n')}\n\n`
}

function listOf({ name, files }: Way, before: string): string {
  const order = filesIn(before, name)
  const placeOf = (file: WayFile) => (order.includes(file.name) ? order.indexOf(file.name) : order.length)
  const sorted = [...files].sort((one, other) => placeOf(one) - placeOf(other))
  const width = Math.max(...files.map((file) => file.name.length)) + 4
  const lines = sorted.map(
    (file) => `${`${file.name}.ts`.padEnd(width)}${String(file.functions).padStart(2)}  ${file.about}`
  )
  return `### ${name}\n\n\`\`\`\n${lines.join('\n')}\n\`\`\``
}

/** The bench: prints the ways, and in a checkout writes them to lib/README.md. */
export async function ways(): Promise<void> {
  const file = join(SOURCES, 'README.md')
  const readme = readFileSync(file, 'utf8')
  const before = shownIn(readme)
  const shown = show(await countWays(), before)
  writeFileSync(
    file,
    readme.replace(before, () => shown)
  )
  process.stdout.write(shown)
}
