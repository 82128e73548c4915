// The page's one connection: a WebSocket with the frames of the run that is followed, and news of all threads. A browser allows six
// connections to a server over plain HTTP, in all tabs together, and a stream would take one for as long as its answer lasts.
//
// A hidden tab lets go of it and comes back to the frame. Where it is refused, event streams and polls take over.
import { signal } from '@preact/signals'
import { BASE } from './base.ts'

/** How long it is not tried again after it was refused, in ms, for each time. */
const REFUSED_MS = 10_000
const REFUSED_MAX_MS = 300_000
/** How long a snapshot is waited for, in ms: a run that has not started has none. */
const SNAPSHOT_MS = 2000

/** The close code for a session that was revoked. */
const SIGNED_OUT = 4401
const SIGNED_OUT_MS = 5000
/** How long one that is not needed any more may take to open, in ms. */
const OPENING_MS = 1000

/** News come by it: nobody needs to poll. */
export const isLive = signal(false)

type Send = (method: string, path: string) => Promise<Response>

interface Followed {
  readonly threadId: string
  readonly runId: string
  readonly query: URLSearchParams
  /** Of the last frame; null: nothing was seen. */
  position: string | null
  controller: ReadableStreamDefaultController<Uint8Array> | null
}

const listeners = new Set<(threadId: string | null) => void>()
const encoder = new TextEncoder()
let socket: WebSocket | null = null
let run: Followed | null = null
let isWanted = false
let refusals = 0
let refusedUntil = 0
let heartbeatMs = 5000
let silence: ReturnType<typeof setTimeout> | undefined
let heardAt = 0
/** Frames of the run that have come and are not passed on yet: those of one message go together. */
let passing = ''
/** Ends the wait for the connection that is being opened. */
let giveUp: (() => void) | null = null

/** Calls back with the id of a thread that has changed, or null: any may have. Returns how to stop. */
export function onNews(listener: (threadId: string | null) => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Opens it for as long as the page is signed in. */
export function goLive(): void {
  isWanted = true
  if (!socket) void connect()
}

/** The session has ended. */
export function endLive(): void {
  isWanted = false
  drop('The session has ended')
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) drop('The tab is hidden')
  else if (isWanted && !socket) void connect()
})

// What hangs is told at once, and not when the next sign is late.
addEventListener('offline', () => {
  if (!socket) return
  drop('The device is offline')
  again(1000)
})

/** A run's stream over the WebSocket, as if it were the answer to the request. `send`: the same request over HTTP. */
export async function liveStream(
  method: string,
  path: string,
  aborted: AbortSignal | undefined,
  send: Send
): Promise<Response> {
  const { pathname, searchParams: query } = new URL(path, location.origin)
  const [, threadId, named] = /^\/api\/threads\/([^/]+)\/runs\/(?:([^/]+)\/)?stream$/.exec(pathname) ?? []
  if (!threadId || !isWanted || Date.now() < refusedUntil) return send(method, path)
  if (document.hidden && method !== 'POST') await visible(aborted)
  let position = query.get('last_event_id')
  let runId = named
  let text = ''
  if (method === 'POST') {
    const response = await send(method, path)
    runId = /\/runs\/([^/]+)/.exec(response.headers.get('content-location') ?? '')?.[1]
    if (!runId) return response
    void response.body?.cancel().catch(() => {})
    // It is sent, and followed by who looks at it.
    if (document.hidden) return new Response('', { headers: { 'Content-Location': placeOf(threadId, runId) } })
  } else if (position === null && query.get('mode') === 'snapshot') {
    text = await firstFrame(await send(method, path))
    position = /^id: (.+)$/m.exec(text)?.[1] ?? null
    if (text.includes('event: end\n')) return new Response(text)
    if (text !== '' && position === null) return send(method, path)
  }
  query.delete('mode')
  const followed: Followed = { threadId, runId: runId!, query, position, controller: null }
  const body = await follow(followed, text, aborted)
  // Over HTTP a join is what was asked for, with its modes, its position or a snapshot of its own; a start is joined.
  const place = placeOf(threadId, followed.runId)
  if (!body) return method === 'POST' ? send('GET', `${place}/stream`) : send(method, path)
  return new Response(body, { headers: { 'Content-Location': place, 'X-Heartbeat-Ms': String(heartbeatMs) } })
}

const placeOf = (threadId: string, runId: string) => `/api/threads/${threadId}/runs/${runId}`

/** null: the WebSocket is refused. */
async function follow(
  followed: Followed,
  text: string,
  aborted: AbortSignal | undefined
): Promise<ReadableStream<Uint8Array> | null> {
  const leave = () => {
    if (run === followed) run = null
  }
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      followed.controller = controller
      if (text) controller.enqueue(encoder.encode(text))
    },
    // The thread is left, or the run has ended.
    cancel: leave
  })
  run?.controller?.error(new Error('Another run is followed'))
  run = followed
  const onAbort = () => {
    if (run === followed) drop('given up')
  }
  aborted?.addEventListener('abort', onAbort)
  if (await connect()) return body
  leave()
  if (aborted?.aborted || Date.now() >= refusedUntil) throw aborted?.reason ?? new Error('The connection is closed')
  return null
}

/** Opens it anew, for what is wanted now. False: it was refused, or given up. */
function connect(): Promise<boolean> {
  const before = socket
  socket = null
  close(before)
  const query = new URLSearchParams({ threads: run?.threadId ?? '' })
  for (const mode of run?.query.getAll('stream_mode') ?? []) query.append('stream_mode', mode)
  if (run) query.set('cursor', run.position === null ? run.runId : `${run.runId}:${run.position}`)
  const mine = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${BASE}/api/stream?${query}`)
  socket = mine
  return new Promise((resolve) => {
    let isOpen = false
    giveUp?.()
    giveUp = () => resolve(false)
    mine.onmessage = ({ data }) => {
      if (socket !== mine) return
      heardAt = performance.now()
      for (const block of String(data).split(/(?<=\n\n)/)) take(block)
      passOn()
      if (isOpen) return
      isOpen = true
      refusals = 0
      isLive.value = true
      notify(null)
      resolve(true)
    }
    mine.onclose = ({ code }) => {
      resolve(false)
      if (socket !== mine) return
      if (!isOpen) refuse()
      drop('The connection is closed')
      // The session of the page may be another one by now; if it is not, the next call says so before it is tried again.
      if (code === SIGNED_OUT) notify(null)
      if (isOpen) again(code === SIGNED_OUT ? SIGNED_OUT_MS : 1000 + Math.random() * 1000)
    }
  })
}

/** Event streams and polls take over for a while. */
function refuse(): void {
  const ms = Math.min(REFUSED_MAX_MS, REFUSED_MS * ++refusals)
  refusedUntil = Date.now() + ms
  again(ms)
}

function again(ms: number): void {
  setTimeout(() => {
    if (isWanted && !socket && !document.hidden) void connect()
  }, ms)
}

/** Lets go of it: who follows a run comes back with its position. */
function drop(why: string): void {
  clearTimeout(silence)
  passing = ''
  giveUp?.()
  const [was, followed] = [socket, run]
  socket = null
  run = null
  isLive.value = false
  close(was)
  followed?.controller?.error(new Error(why))
}

/**
 * One that is being opened is closed when it is open, for browsers complain of it otherwise; not for long, for they open one at a time.
 */
function close(one: WebSocket | null): void {
  if (!one) return
  one.onmessage = null
  one.onclose = null
  if (one.readyState !== WebSocket.CONNECTING) return one.close()
  one.onopen = () => one.close()
  setTimeout(() => one.close(), OPENING_MS)
}

/**
 * Looks whether it is silent for too long: a timer a frame would cost more than the frame. The client's own Watchdog aborts requests, and
 * is no part of what `colloquy/client` exports.
 */
function watch(): void {
  clearTimeout(silence)
  const look = () => {
    const left = heardAt + heartbeatMs * 1.5 - performance.now()
    if (left > 0) silence = setTimeout(look, left)
    else {
      drop('The connection is silent')
      again(0)
    }
  }
  look()
}

/** An event, or a heartbeat. */
function take(block: string): void {
  const [, event] = /^event: (.+)$/m.exec(block) ?? []
  const [, data = 'null'] = /^data: (.*)$/m.exec(block) ?? []
  if (event === 'open') {
    heartbeatMs = JSON.parse(data).heartbeat_ms
    watch()
  } else if (event === 'thread') {
    passOn()
    notify(JSON.parse(data).thread_id)
  } else if (event !== 'run' && event !== 'begun') pass(block, data)
}

/** Passes a frame of the run on, with the id it has in the run's own stream. */
function pass(block: string, data: string): void {
  if (!run?.controller) return
  const id = /^id: (.+)$/m.exec(block)?.[1]
  if (id && !id.startsWith(`${run.runId}:`)) return
  const isDone = block.startsWith('event: metadata\n') && JSON.parse(data).status === 'run_done'
  if (id && !isDone) run.position = id.slice(run.runId.length + 1)
  passing += isDone ? 'event: end\ndata: null\n\n' : block.replace(/^id: .+?:/m, 'id: ')
  if (!isDone) return
  passOn()
  run.controller.close()
  run = null
}

function passOn(): void {
  if (passing) run?.controller?.enqueue(encoder.encode(passing))
  passing = ''
}

function notify(threadId: string | null): void {
  for (const listener of listeners) listener(threadId)
}

/** The text of a stream's first frame; '': none comes soon. */
async function firstFrame({ body }: Response): Promise<string> {
  const reader = body?.getReader()
  const decoder = new TextDecoder()
  const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), SNAPSHOT_MS))
  let text = ''
  for (;;) {
    const piece = await Promise.race([reader?.read(), late])
    if (!piece || piece.done) break
    text += decoder.decode(piece.value, { stream: true })
    if (text.includes('\n\n')) break
  }
  void reader?.cancel().catch(() => {})
  // Of what came with it, only whole frames: what follows comes by the other way.
  if (text.includes('event: end\n')) return text
  const end = text.indexOf('\n\n')
  return end < 0 ? '' : text.slice(0, end + 2)
}

function visible(aborted: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    document.addEventListener('visibilitychange', () => resolve(), { once: true })
    aborted?.addEventListener('abort', () => reject(aborted.reason), { once: true })
  })
}
