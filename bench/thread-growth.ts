// Does a turn cost more when the thread is long? A thread of a thousand turns on SQLite, of our own agent and of a graph.
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type Database from 'better-sqlite3'
import type { Agent } from '../lib/agent/runtime.ts'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import { loadConfig } from '../lib/config/config.ts'
import { startGateway } from '../lib/gateway.ts'
import { benchAgent } from './agent.ts'
import type { Options } from './options.ts'
import { median, type Row, report, short } from './report.ts'

const TURN = { deltas: 100, size: 6, rate: 0 }

/** A graph that answers in two supersteps, with as much text. */
const GRAPH = `import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
const say = (text) => () => ({ messages: [new AIMessage({ content: text.repeat(50) })] })
export const graph = new StateGraph(MessagesAnnotation)
  .addNode('one', say('first '))
  .addNode('two', say('second'))
  .addEdge(START, 'one')
  .addEdge('one', 'two')
  .addEdge('two', END)
  .compile()
`

/** A turn of the graph makes three messages: at this one there are a thousand. */
const GRAPH_TURNS = 333

/** Turns up to a mark whose CPU is counted: of this process, with its threads and the client. */
const CPU_TURNS = 9

const MODULES = fileURLToPath(new URL('../../node_modules/', import.meta.url))

interface Subject {
  readonly name: string
  /** null: the one of the configuration. */
  readonly agent: Agent | null
  readonly turns: number
}

/** The lengths of a row's columns as JSON lists and texts, in all rows of its table. */
const SIZES: Readonly<Record<string, readonly string[]>> = {
  checkpoints: ['metadata_json', 'next_json', 'messages_json', 'channels_json', 'checkpoint_id', 'checkpoint_id'],
  checkpoint_bodies: ['json'],
  graph_checkpoints: ['checkpoint', 'metadata', 'names_json', 'checkpoint_id', 'checkpoint_id'],
  graph_values: ['name', 'data'],
  graph_writes: ['data']
}

interface Bytes {
  readonly checkpoints: number
  readonly frames: number
}

function bytesOf(db: Database.Database): Bytes {
  const sum = (table: string, columns: readonly string[]) => {
    const lengths = columns.map((column) => `length(${column})`).join(' + ')
    return db.prepare<[], number | null>(`SELECT sum(${lengths}) FROM ${table}`).pluck().get() ?? 0
  }
  const tables = Object.entries(SIZES).map(([table, columns]) => sum(table, columns))
  return { checkpoints: tables.reduce((all, one) => all + one, 0), frames: sum('frames', ['idx', 'data']) }
}

export async function threadGrowth(options: Options): Promise<void> {
  const turns = options.quick ? 100 : 1000
  const subjects: Subject[] = [{ name: 'ours', agent: benchAgent(async () => {}), turns }]
  // LangGraph is not installed with us.
  if (existsSync(join(MODULES, '@langchain/langgraph')))
    subjects.push({ name: 'a graph', agent: null, turns: Math.min(turns, GRAPH_TURNS) })
  const rows: Row[] = []
  for (const subject of subjects) rows.push(...(await growthOf(subject)))
  report('Does a turn cost more when the thread is long?', { turns, ...TURN }, rows)
}

/** A folder with the graph, for agent.config. */
function graphIn(home: string): string {
  const folder = join(home, 'graph')
  mkdirSync(folder)
  symlinkSync(MODULES, join(folder, 'node_modules'))
  writeFileSync(join(folder, 'graph.mjs'), GRAPH)
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs: { talk: './graph.mjs:graph' } }))
  return folder
}

async function growthOf({ name, agent, turns }: Subject): Promise<Row[]> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const base = loadConfig({ home, port: 0, env: {}, cwd: home })
  const graphs = { ...base.agent, runtime: 'graphs', config: agent ? null : graphIn(home) } as const
  const config = agent ? base : { ...base, agent: graphs }
  const log = { info() {}, warn() {}, error() {} }
  const gateway = await startGateway({ config, log, ...(agent && { agent }) })
  const db = new Sqlite(config.database.sqlite_path, { readonly: true })
  const rows: Row[] = []
  try {
    const call = await signedIn(gateway.url)
    // Our own server's answers.
    const { thread_id } = JSON.parse(await call('POST', '/api/threads', {})) as { thread_id: string }
    const marks = [10, 100, GRAPH_TURNS, 1000].filter((mark) => mark <= turns)
    let before = bytesOf(db)
    const cpus: number[] = []
    for (let turn = 1; turn <= turns; turn++) {
      const isMeasured = marks.includes(turn + 1) || marks.includes(turn)
      if (isMeasured) await settled()
      if (marks.includes(turn)) before = bytesOf(db)
      const input = { messages: [{ role: 'user', content: JSON.stringify(TURN) }] }
      const began = performance.now()
      const used = process.cpuUsage()
      await call('POST', `/api/threads/${thread_id}/runs/wait`, { input, ...(!agent && { assistant_id: 'talk' }) })
      const turnMs = performance.now() - began
      const { user, system } = process.cpuUsage(used)
      cpus.push((user + system) / 1000)
      if (marks.includes(turn)) rows.push(await measured(turn, turnMs, before))
    }

    async function measured(turn: number, turnMs: number, earlier: Bytes): Promise<Row> {
      await settled()
      const after = bytesOf(db)
      const times: number[] = []
      let size = 0
      for (let i = 0; i < 9; i++) {
        const began = performance.now()
        size = (await call('GET', `/api/threads/${thread_id}/state`)).length
        times.push(performance.now() - began)
      }
      const stateMs = median(times).mid
      return {
        agent: name,
        turn,
        'checkpoint bytes': after.checkpoints - earlier.checkpoints,
        'frame bytes': after.frames - earlier.frames,
        'turn ms': short(turnMs),
        'turn ms of CPU': short(median(cpus.slice(-CPU_TURNS)).mid),
        'state KB': short(size / 1000),
        'GET state ms': short(stateMs),
        'state us/KB': short((stateMs * 1000) / (size / 1000)),
        'file MB': short(statSync(config.database.sqlite_path).size / 1e6)
      }
    }
    return rows
  } finally {
    db.close()
    await gateway.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

/** Until the frames of the last run are compressed, as they stay: that waits for a moment in which no run ends. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1500))
}

async function signedIn(url: string): Promise<(method: string, path: string, body?: object) => Promise<string>> {
  const json = { 'content-type': 'application/json' }
  const account = JSON.stringify({ email: 'bench@example.com', password: 'correct-horse-42' })
  const answer = await fetch(`${url}/api/v1/auth/initialize`, { method: 'POST', headers: json, body: account })
  const cookies = answer.headers.getSetCookie().map((line) => line.split(';')[0]!)
  const csrf = cookies.find((cookie) => cookie.startsWith('csrf_token='))?.slice('csrf_token='.length) ?? ''
  const headers = { ...json, cookie: cookies.join('; '), 'x-csrf-token': csrf }
  return async (method, path, body) =>
    (await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })).text()
}
