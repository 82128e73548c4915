// Floors: bare node:http servers that do the least one can do for the same bytes. None knows users, routes, runs or a store.
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import { createParser } from 'eventsource-parser'
import { type WebSocket, WebSocketServer } from 'ws'
import { TURN, type Script } from './agent.ts'
import { eventFrameOf, eventOf, frameOf } from './frame.ts'

/**
 * - `write`: res.write of a shared Buffer a frame; `sock`: socket.write of one that is framed as a chunk already.
 * - `event`: as `sock`, an event of protocol v2. `websocket`: `send` of `ws` of such an event to every socket.
 * - `coalesce`: what is due in a tick joined once, framed once, one socket.write a reader.
 * - `ticker`: own frames for every reader, one timer for all of them, socket.write.
 * - `slab`: prepared Buffers of 256 frames. `relay`: a model's stream, parsed and passed on. `first`: one frame, at once.
 * - `silent`: a head, and heartbeats. `json`: JSON out of SQLite, parsed and written again.
 */
export type Floor =
  | 'write'
  | 'sock'
  | 'event'
  | 'websocket'
  | 'coalesce'
  | 'ticker'
  | 'slab'
  | 'relay'
  | 'first'
  | 'silent'
  | 'json'

export interface FloorOptions {
  readonly floor: Floor
  readonly script: Script
  /** Of a paced floor, in ms. Default: the time from frame to frame; of `silent` the time from heartbeat to heartbeat. */
  readonly tickMs?: number | undefined
  /** Of `relay`: where its model answers. */
  readonly model?: string | undefined
  /** Of `json`: a database with the one row `text` in the table `answer`. */
  readonly file?: string | undefined
}

const END = Buffer.from('event: end\ndata: null\n\n')
const HEARTBEAT = Buffer.from(': heartbeat\n')
const SLAB_FRAMES = 256

/** Listens; answers its address, and how to stop it. `begun` is the next word to begin: a broadcast goes to those who have come by then. */
export async function startFloor(
  options: FloorOptions,
  begun: () => Promise<void>
): Promise<{ url: string; stop: () => Promise<void> }> {
  const responses: ServerResponse[] = []
  const serve = handlerOf(options, responses)
  const server = createServer({ keepAliveTimeout: 75_000 }, serve)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { floor, script, tickMs } = options
  if (floor === 'websocket') return webSockets(server, script, begun)
  const isServing = () => server.listening
  if (isBroadcast(floor)) void broadcasts(floor, script, responses, begun, isServing, tickMs)
  const beats = floor === 'silent' ? setInterval(() => beat(responses), tickMs) : null
  const stop = async () => {
    if (beats) clearInterval(beats)
    server.closeAllConnections()
    server.close()
  }
  // It listens on a port: its address is an object.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop }
}

type Handler = (req: IncomingMessage, res: ServerResponse) => void

function handlerOf({ floor, script, model = '', file = '' }: FloorOptions, responses: ServerResponse[]): Handler {
  if (floor === 'json') return jsonHandler(file)
  const frame = Buffer.from(frameOf(script.size))
  const slabs = floor === 'slab' ? slabsOf(frame, script.deltas) : []
  return (req, res) => {
    req.resume()
    res.socket?.setNoDelay(true)
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.flushHeaders()
    if (floor === 'slab') void sendSlabs(res, slabs)
    else if (floor === 'relay') relay(res, script, model)
    else if (floor === 'first') {
      res.write(frame)
      res.end(END)
    } else responses.push(res)
  }
}

// ----------------------------------------------------------------------------------------- one run, many readers

type Broadcast = 'write' | 'sock' | 'event' | 'coalesce' | 'ticker'
const BROADCASTS: readonly Floor[] = ['write', 'sock', 'event', 'coalesce', 'ticker']

function isBroadcast(floor: Floor): floor is Broadcast {
  return BROADCASTS.includes(floor)
}

/** One a word, each to readers of its own. */
async function broadcasts(
  floor: Broadcast,
  script: Script,
  responses: ServerResponse[],
  begun: () => Promise<void>,
  isServing: () => boolean,
  tickMs?: number
): Promise<void> {
  while (isServing()) {
    await begun()
    await broadcast(floor, script, responses.splice(0), tickMs)
  }
}

async function broadcast(
  floor: Broadcast,
  script: Script,
  responses: readonly ServerResponse[],
  tickMs?: number
): Promise<void> {
  const frame = Buffer.from(floor === 'event' ? eventFrameOf(script.size) : frameOf(script.size))
  await (script.rate === 0
    ? flatOut(floor, script, frame, responses)
    : paced(
        script,
        (due) => send(floor, script.isStamped ? Buffer.from(frameOf(script.size, true)) : frame, due, responses),
        tickMs ?? 1000 / script.rate
      ))
  for (const res of responses) res.end(END)
}

async function flatOut(
  floor: Broadcast,
  { deltas, turn = TURN }: Script,
  frame: Buffer,
  responses: readonly ServerResponse[]
): Promise<void> {
  for (let i = 0; i < deltas; i += turn) {
    send(floor, frame, Math.min(turn, deltas - i), responses)
    await drained(responses)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Woken by every frame, as whoever hears a model is, and sends what has come when a tick is over. */
async function paced({ deltas, rate }: Script, say: (count: number) => void, tickMs: number): Promise<void> {
  const began = performance.now()
  let sentAt = began
  for (let sent = 0; sent < deltas; ) {
    await new Promise((resolve) => setTimeout(resolve, 1000 / rate))
    const now = performance.now()
    const due = Math.min(deltas, Math.floor(((now - began) / 1000) * rate))
    // Timers are of whole milliseconds.
    if (now - sentAt < tickMs - 1 && due < deltas) continue
    say(due - sent)
    sent = due
    sentAt = now
  }
}

function send(floor: Broadcast, frame: Buffer, count: number, responses: readonly ServerResponse[]): void {
  if (count <= 0) return
  if (floor === 'write') {
    for (let i = 0; i < count; i++) for (const res of responses) res.write(frame)
    return
  }
  const chunk = chunkOf(floor === 'coalesce' ? Buffer.concat(Array.from({ length: count }, () => frame)) : frame)
  const writes = floor === 'coalesce' ? 1 : count
  for (let i = 0; i < writes; i++) for (const res of responses) res.socket?.write(chunk)
}

function chunkOf(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

/** Until every socket has space again, or is gone: a reader that has all its frames leaves. */
async function drained(responses: readonly ServerResponse[]): Promise<void> {
  const full = responses.flatMap(({ socket }) => (socket?.writableNeedDrain && !socket.destroyed ? [socket] : []))
  const spaces = full.map((socket) => new Promise((resolve) => socket.once('drain', resolve).once('close', resolve)))
  if (spaces.length > 0) await Promise.all(spaces)
}

function beat(responses: readonly ServerResponse[]): void {
  for (const res of responses) res.write(HEARTBEAT)
}

// -------------------------------------------------------------------------------------------------- WebSockets

type Listening = { url: string; stop: () => Promise<void> }

/** A broadcast goes to those who have subscribed by then; what they say is answered, and not understood. */
function webSockets(server: Server, script: Script, begun: () => Promise<void>): Listening {
  const clients: WebSocket[] = []
  const sockets = new WebSocketServer({ server, perMessageDeflate: false })
  sockets.on('connection', (ws) => {
    ws.on('message', () => ws.send('{"type":"success"}'))
    clients.push(ws)
  })
  const serve = async () => {
    while (server.listening) {
      await begun()
      await tellAll(clients.splice(0), script)
    }
  }
  void serve()
  const stop = async () => {
    for (const ws of sockets.clients) ws.terminate()
    server.close()
  }
  // It listens on a port: its address is an object.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop }
}

async function tellAll(clients: readonly WebSocket[], script: Script): Promise<void> {
  const { deltas, turn = TURN, rate, size } = script
  const event = Buffer.from(eventOf(size))
  const say = (count: number) => {
    for (let i = 0; i < count; i++) for (const ws of clients) ws.send(event, { binary: false })
  }
  if (rate > 0) return paced(script, say, 1000 / rate)
  for (let i = 0; i < deltas; i += turn) {
    say(Math.min(turn, deltas - i))
    do await new Promise((resolve) => setImmediate(resolve))
    while (clients.some(({ bufferedAmount, readyState, OPEN }) => readyState === OPEN && bufferedAmount > BUFFERED_MAX))
  }
}

/** Bytes that one socket may hold before the next turn waits. */
const BUFFERED_MAX = 64 * 1024

// ------------------------------------------------------------------------------------------------------ replay

function slabsOf(frame: Buffer, count: number): Buffer[] {
  const slabs: Buffer[] = []
  for (let left = count; left > 0; left -= SLAB_FRAMES)
    slabs.push(chunkOf(Buffer.concat(Array.from({ length: Math.min(left, SLAB_FRAMES) }, () => frame))))
  return slabs
}

async function sendSlabs(res: ServerResponse, slabs: readonly Buffer[]): Promise<void> {
  const { socket } = res
  for (const slab of slabs) {
    if (!socket || res.destroyed) return
    if (!socket.write(slab)) await new Promise((resolve) => socket.once('drain', resolve))
  }
  res.end(END)
}

// ------------------------------------------------------------------------------------------------------- relay

/** What a gateway cannot do less than: ask the model, parse its events, make a frame of each, pass it on. */
function relay(res: ServerResponse, script: Script, model: string): void {
  const body = JSON.stringify({ stream: true, messages: [{ role: 'user', content: JSON.stringify(script) }] })
  const id = '0'.repeat(36)
  let n = 0
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') return
      // The bench's own model said it.
      const { choices } = JSON.parse(data) as { choices: { delta: { content?: string } }[] }
      const content = choices[0]?.delta.content
      if (content === undefined) return
      const json = `[{"content":${JSON.stringify(content)},"type":"AIMessageChunk","id":"${id}"},{"langgraph_node":"agent"}]`
      res.write(`event: messages\ndata: ${json}\nid: 1790000000000-${n++}\n\n`)
    }
  })
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const asked = request(`${model}/chat/completions`, { method: 'POST', headers, agent: false }, (answer) => {
    answer.setEncoding('utf8')
    answer.on('data', (text: string) => parser.feed(text))
    answer.on('end', () => res.end(END))
  })
  asked.on('error', () => res.destroy())
  asked.end(body)
}

// -------------------------------------------------------------------------------------------------------- JSON

function jsonHandler(file: string): Handler {
  const db = new Sqlite(file, { readonly: true })
  const row = db.prepare<[], { text: string }>('SELECT text FROM answer')
  return (req, res) => {
    req.resume()
    const text = JSON.stringify(JSON.parse(row.get()?.text ?? 'null'))
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    res.end(text)
  }
}
