// The server under the bench, as a process of its own: the gateway, or a floor, a bare node:http server that does the least one can
// do for the same frames. It is steered over IPC, and tells its own CPU time and memory.
import { createServer, type ServerResponse } from 'node:http'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { loadConfig } from '../lib/config.ts'
import { startGateway } from '../lib/gateway.ts'
import { benchAgent, type Script } from './agent.ts'

export type Kind = 'gateway' | 'floor:write' | 'floor:coalesce' | 'floor:slab'

/** What the bench says. */
export type Order =
  | {
      readonly type: 'start'
      readonly kind: Kind
      readonly script: Script
      readonly frame: string
      readonly config?: object
    }
  | { readonly type: 'go' }
  | { readonly type: 'usage' }
  | { readonly type: 'stop' }

export interface Usage {
  /** CPU of the process since it started, in microseconds. */
  readonly cpu: number
  /** Bytes. */
  readonly rss: number
  /** Delay of the event loop since the last answer, in ms. */
  readonly loopP99: number
}

let open: () => void = () => {}
let begun = new Promise<void>((resolve) => {
  open = resolve
})
const delay = monitorEventLoopDelay({ resolution: 5 })
const responses: ServerResponse[] = []
let stop: () => Promise<void> = async () => {}

function silent(): void {}
const log = {
  info: silent,
  warn: silent,
  error: (fields: object, text: string) => process.stderr.write(`${text} ${JSON.stringify(fields)}\n`)
}

async function startKind({ kind, script, frame, config }: Order & { type: 'start' }): Promise<string> {
  if (kind !== 'gateway') return startFloor(kind, script, Buffer.from(frame))
  const home = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const defaults = loadConfig({ home, port: 0, env: {}, cwd: home })
  // All joiners of a bench are one user.
  const options = { ...defaults, streams: { ...defaults.streams, per_user: 0 }, ...config }
  const gateway = await startGateway({ config: options, log, agent: benchAgent(() => begun) })
  stop = async () => {
    await gateway.stop()
    rmSync(home, { recursive: true, force: true })
  }
  return gateway.url
}

async function startFloor(kind: Kind, script: Script, frame: Buffer): Promise<string> {
  const slabs = kind === 'floor:slab' ? slabsOf(frame, script.deltas) : []
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.flushHeaders()
    responses.push(res)
    if (slabs.length) void sendSlabs(res, slabs)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  if (!slabs.length)
    void begun.then(() => (script.rate === 0 ? floorFlat(kind, script, frame) : floorPaced(kind, script, frame)))
  stop = async () => {
    server.closeAllConnections()
    server.close()
  }
  // It listens on a port: its address is an object.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const END = Buffer.from('event: end\ndata: null\n\n')
const SLAB_FRAMES = 256

function slabsOf(frame: Buffer, count: number): Buffer[] {
  const slabs: Buffer[] = []
  for (let left = count; left > 0; left -= SLAB_FRAMES)
    slabs.push(Buffer.concat(Array.from({ length: Math.min(left, SLAB_FRAMES) }, () => frame)))
  return slabs
}

async function sendSlabs(res: ServerResponse, slabs: readonly Buffer[]): Promise<void> {
  for (const slab of slabs) if (!res.write(slab)) await new Promise((resolve) => res.once('drain', resolve))
  res.end(END)
}

async function room(): Promise<void> {
  await Promise.all(
    responses.filter((res) => res.writableNeedDrain).map((res) => new Promise((resolve) => res.once('drain', resolve)))
  )
}

async function floorFlat(kind: Kind, { deltas }: Script, frame: Buffer): Promise<void> {
  const turn = 16
  const joined = Buffer.concat(Array.from({ length: turn }, () => frame))
  for (let i = 0; i < deltas; i += turn) {
    for (const res of responses) {
      if (kind === 'floor:coalesce') res.write(joined)
      else for (let k = 0; k < turn; k++) res.write(frame)
    }
    await room()
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (const res of responses) res.end(END)
}

async function floorPaced(kind: Kind, { deltas, rate }: Script, frame: Buffer): Promise<void> {
  const began = performance.now()
  const tickMs = kind === 'floor:coalesce' ? 50 : 1000 / rate
  for (let sent = 0; sent < deltas; ) {
    const due = Math.min(deltas, Math.floor(((performance.now() - began) / 1000) * rate))
    const bytes = kind === 'floor:coalesce' ? Buffer.concat(Array.from({ length: due - sent }, () => frame)) : frame
    if (kind === 'floor:coalesce' && due > sent) for (const res of responses) res.write(bytes)
    if (kind === 'floor:write') for (let k = sent; k < due; k++) for (const res of responses) res.write(bytes)
    sent = Math.max(sent, due)
    await new Promise((resolve) => setTimeout(resolve, tickMs))
  }
  for (const res of responses) res.end(END)
}

process.on('message', async (order: Order) => {
  if (order.type === 'start') process.send?.({ url: await startKind(order) })
  else if (order.type === 'go') {
    delay.enable()
    delay.reset()
    open()
    // The next run waits for its own word.
    begun = new Promise<void>((resolve) => {
      open = resolve
    })
  } else if (order.type === 'usage') {
    const { user, system } = process.cpuUsage()
    process.send?.({
      cpu: user + system,
      rss: process.memoryUsage.rss(),
      loopP99: delay.percentile(99) / 1e6
    } satisfies Usage)
  } else {
    await stop()
    process.exit(0)
  }
})
