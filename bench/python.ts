// What does a token of a graph in Python cost above the graph itself: our worker and gateway, and LangGraph's own server beside them?
// Processor time of all processes of each, the graph iterated bare in the same interpreter taken away. Needs Python, and a registry once.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Options } from './options.ts'
import { median, type Row, report, short } from './report.ts'
import { Server } from './rig.ts'
import { cpuOf, type Memory, memoryOf } from './server-cpu.ts'
import { LANGGRAPH_DEV, startLangGraphDev } from '../test/fixtures/langgraph-dev.ts'
import { pythonWith } from '../test/fixtures/python.ts'
import { until } from '../test/fixtures/until.ts'

/** Its model says as many words as the last message asks for. */
const GRAPH = `
import asyncio
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph


class Words(BaseChatModel):
    @property
    def _llm_type(self):
        return "words"

    def _generate(self, messages, stop=None, run_manager=None, **more):
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="words"))])

    async def _astream(self, messages, stop=None, run_manager=None, **more):
        for n in range(int(messages[-1].content)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"word{n} "))


async def node(state):
    return {"messages": [await Words().ainvoke(state["messages"])]}


async def wait(state):
    await asyncio.Event().wait()


hanging = StateGraph(MessagesState).add_node("wait", wait).add_edge(START, "wait").add_edge("wait", END).compile()
graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").add_edge("node", END).compile()
`
/** Prints the microseconds of processor time for each count of words. */
const BARE = `
import asyncio, json, sys, time
from graph import graph


async def words(count):
    seen = 0
    async for part in graph.astream({"messages": [("user", str(count))]}, stream_mode="messages"):
        seen += 1
    assert seen >= count, seen


async def main():
    for count in json.loads(sys.argv[1]):
        began = time.process_time()
        await words(count)
        print((time.process_time() - began) * 1e6)


asyncio.run(main())
`
/** No step of this bench takes longer, or it fails, in ms. */
const STEP_MS = 120_000
const WARM_UP = 2

interface Sizes {
  readonly few: number
  readonly many: number
  readonly runs: number
  readonly cancels: number
}

/** One that answers LangGraph's API. */
interface Peer {
  readonly pid: number
  /** Reads a run with that many words to its end. */
  say(words: number): Promise<void>
  /** Milliseconds from the cancel of a run whose node waits for ever to the answer that it has ended. */
  cancel(): Promise<number>
  stop(): Promise<void>
}

/** One that asks a server for what it answers in JSON, or as it is. */
function client(url: string, headers: Record<string, string>) {
  const ask = (path: string, body?: object) =>
    fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: { ...headers, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(STEP_MS)
    })
  // The answers of either server.
  const json = async (path: string, body?: object) => (await (await ask(path, body)).json()) as Answer
  return { ask, json }
}

interface Answer {
  readonly thread_id: string
  readonly run_id: string
  readonly next?: readonly string[]
}

async function saidBy({ ask, json }: ReturnType<typeof client>, words: number): Promise<void> {
  const { thread_id } = await json('/threads', {})
  const input = { messages: [{ role: 'user', content: String(words) }] }
  const body = { assistant_id: 'agent', input, stream_mode: ['messages-tuple'] }
  const answer = await ask(`/threads/${thread_id}/runs/stream`, body)
  const text = await answer.text()
  if (!text.includes(`word${words - 1} `)) throw new Error(`a run was not told to its end: ${text.slice(-300)}`)
}

async function cancelledBy({ ask, json }: ReturnType<typeof client>): Promise<number> {
  const { thread_id } = await json('/threads', {})
  const path = `/threads/${thread_id}`
  const { run_id } = await json(`${path}/runs`, { assistant_id: 'hanging', input: { messages: [] } })
  await until(async () => (await json(`${path}/state`)).next?.[0] === 'wait', 'the node to begin', STEP_MS)
  const began = performance.now()
  const answer = await ask(`${path}/runs/${run_id}/cancel?wait=true`, {})
  const took = performance.now() - began
  if (!answer.ok) throw new Error(`a run was not cancelled: ${answer.status} ${await answer.text()}`)
  return took
}

const deedsOf = (asking: ReturnType<typeof client>) => ({
  say: (words: number) => saidBy(asking, words),
  cancel: () => cancelledBy(asking)
})

async function ours(folder: string, python: string): Promise<Peer> {
  const config = { agent: { runtime: 'graphs', config: folder, python }, title: { enabled: false } }
  // The agent of the configuration, and not the bench's.
  const server = await Server.gateway(config, true)
  const asking = client(`${server.url}/api`, server.headers)
  return { pid: server.pid, ...deedsOf(asking), stop: () => server.stop() }
}

async function theirs(folder: string, python: string): Promise<Peer> {
  const { url, pid, stop } = await startLangGraphDev(python, folder)
  return { pid, ...deedsOf(client(url, {})), stop: async () => stop() }
}

/** Processor time of a word, by the difference of runs with many and with few: what a run costs besides is in both. */
async function costOf({ pid, say }: Peer, { few, many, runs }: Sizes): Promise<number[]> {
  for (let i = 0; i < WARM_UP; i++) await say(few)
  const used = async (words: number) => {
    const before = cpuOf(pid)
    await say(words)
    return cpuOf(pid) - before
  }
  const costs: number[] = []
  for (let i = 0; i < runs; i++) costs.push((-(await used(few)) + (await used(many))) / (many - few))
  return costs
}

async function bareCost(folder: string, python: string, { few, many, runs }: Sizes): Promise<number[]> {
  const counts = [few, few, ...Array.from({ length: runs }, () => [few, many]).flat()]
  const child = spawn(python, ['bare.py', JSON.stringify(counts)], { cwd: folder, timeout: STEP_MS })
  let text = ''
  child.stdout.on('data', (bytes) => {
    text += String(bytes)
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(`the bare graph ended with ${String(code)}`)
  const times = text.trim().split('\n').slice(2).map(Number)
  return Array.from({ length: runs }, (_, n) => (times[2 * n + 1]! - times[2 * n]!) / (many - few))
}

interface Measured {
  readonly costs: readonly number[]
  readonly cancels: readonly number[]
  readonly memory: Memory | null
}

async function measured(peer: Peer, sizes: Sizes): Promise<Measured> {
  try {
    const costs = await costOf(peer, sizes)
    const memory = memoryOf(peer.pid)
    const cancels: number[] = []
    for (let i = 0; i < sizes.cancels; i++) cancels.push(await peer.cancel())
    return { costs, cancels, memory }
  } finally {
    await peer.stop()
  }
}

export async function python({ quick, repeats }: Options): Promise<void> {
  const found = await pythonWith(...LANGGRAPH_DEV)
  if ('reason' in found) throw new Error(found.reason)
  const interpreter = join(found.bin, 'python')
  const sizes = quick
    ? { few: 100, many: 600, runs: 1, cancels: 1 }
    : { few: 500, many: 4500, runs: repeats, cancels: 10 }
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-bench-python-'))
  try {
    writeFileSync(join(folder, 'graph.py'), GRAPH)
    writeFileSync(join(folder, 'bare.py'), BARE)
    writeFileSync(
      join(folder, 'langgraph.json'),
      JSON.stringify({ graphs: { agent: './graph.py:graph', hanging: './graph.py:hanging' }, dependencies: ['.'] })
    )
    const bare = await bareCost(folder, interpreter, sizes)
    const floor = median(bare).mid
    const row = (server: string, { costs, cancels, memory }: Measured): Row => {
      const added = costs.map((cost) => cost - floor)
      const mb = (of: keyof Memory) => (memory === null ? '' : short(memory[of]))
      const price = { 'us/word': median(costs).text, 'added us/word': median(added).text }
      const cancel = cancels.length === 0 ? '' : median(cancels).text
      return {
        server,
        ...price,
        'ms of a cancel': cancel,
        'MB of the server': mb('own'),
        'MB of its worker': mb('children')
      }
    }
    const mine = await measured(await ours(folder, interpreter), sizes)
    const peers = await measured(await theirs(folder, interpreter), sizes)
    const ratio = (median(mine.costs).mid - floor) / (median(peers.costs).mid - floor)
    const rows = [
      row('bare astream', { costs: bare, cancels: [], memory: null }),
      row('ours', mine),
      row('langgraph dev', peers)
    ]
    report('What does a word of a graph in Python cost?', { ...sizes, 'ours to theirs': short(ratio) }, rows)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
