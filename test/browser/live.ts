// The page's one connection, without a browser: what a run's stream is when the WebSocket is refused, or its snapshot is late.
import t from 'tap'
import { Clock } from '../fixtures/clock.ts'
import { becomePage, pageModule } from '../fixtures/page-module.ts'

type Send = (method: string, path: string) => Promise<Response>

const OPEN = 'event: open\ndata: {"heartbeat_ms":5000}\n\n'
const SNAPSHOT = 'event: snapshot\nid: 1-7\ndata: {}\n\n'
const STREAM = '/api/threads/one/runs/first/stream'

/** The gateway's end of it: opens, or is refused. */
const gateway = { isRefusing: false, urls: [] as URL[] }

class Socket {
  static readonly CONNECTING = 0
  readonly readyState = 1
  onmessage: ((event: { data: string }) => void) | null = null
  onclose: ((event: { code: number }) => void) | null = null
  constructor(url: string) {
    gateway.urls.push(new URL(url))
    setImmediate(() => (gateway.isRefusing ? this.onclose?.({ code: 1006 }) : this.onmessage?.({ data: OPEN })))
  }
  close(): void {}
}

becomePage({ WebSocket: Socket })
const { endLive, goLive, liveStream } = await pageModule<{
  endLive(): void
  goLive(): void
  liveStream(method: string, path: string, aborted: AbortSignal | undefined, send: Send): Promise<Response>
}>('live')

t.beforeEach(() => {
  Object.assign(gateway, { isRefusing: false, urls: [] })
})
t.afterEach(() => endLive())

t.test('a snapshot that is late, and there in part, is done without: the WebSocket begins with the run', async (t) => {
  const clock = Clock.stopFor(t)
  goLive()
  const sent: string[] = []
  const late = async (method: string, path: string) => {
    sent.push(`${method} ${path}`)
    const begin = (controller: ReadableStreamDefaultController) =>
      controller.enqueue(new TextEncoder().encode('event: sn'))
    return new Response(new ReadableStream({ start: begin }))
  }
  const opening = liveStream('GET', `${STREAM}?mode=snapshot`, undefined, late)
  await clock.pass(2100)
  t.equal((await opening).headers.get('content-location'), STREAM.replace('/stream', ''))
  t.same(sent, [`GET ${STREAM}?mode=snapshot`])
  t.equal(gateway.urls.at(-1)?.searchParams.get('cursor'), 'first')
})

t.test(
  'where the WebSocket is refused, the stream over HTTP has the modes, place and snapshot asked for',
  async (t) => {
    const clock = Clock.stopFor(t)
    goLive()
    const sent: string[] = []
    const send = async (method: string, path: string) => {
      sent.push(`${method} ${path}`)
      return new Response(SNAPSHOT, { headers: { 'Content-Location': STREAM.replace('/stream', '') } })
    }
    const asked = async (method: string, path: string) => {
      gateway.isRefusing = false
      // It is tried again.
      await clock.pass(60_000)
      gateway.isRefusing = true
      sent.length = 0
      const response = await liveStream(method, path, undefined, send)
      t.equal(await response.text(), SNAPSHOT)
      return sent
    }
    for (const query of ['stream_mode=values', 'stream_mode=values&stream_mode=custom&last_event_id=1-5'])
      t.same(await asked('GET', `${STREAM}?${query}`), [`GET ${STREAM}?${query}`])
    // The first one was for the WebSocket, which would have gone on behind it.
    const whole = `GET ${STREAM}?stream_mode=values&mode=snapshot`
    t.same(await asked('GET', whole.slice(4)), [whole, whole])
    const start = '/api/threads/one/runs/stream'
    t.same(await asked('POST', start), [`POST ${start}`, `GET ${STREAM}`])
  }
)

t.test('what is said in a tab that is hidden by then is sent at once, and followed when somebody looks', async (t) => {
  goLive()
  const sent: string[] = []
  const send = async (method: string, path: string) => {
    sent.push(`${method} ${path}`)
    return new Response(SNAPSHOT, { headers: { 'Content-Location': STREAM.replace('/stream', '') } })
  }
  const page = globalThis as unknown as { document: EventTarget & { hidden: boolean } }
  page.document.hidden = true
  t.teardown(() => {
    page.document.hidden = false
  })
  const start = '/api/threads/one/runs/stream'
  const opening = liveStream('POST', start, undefined, send)
  const following = liveStream('GET', STREAM, undefined, send)
  t.same(sent, [`POST ${start}`])
  const begun = await opening
  t.equal(begun.headers.get('content-location'), STREAM.replace('/stream', ''))
  t.equal(await begun.text(), '', 'its end is to come')
  t.same(sent, [`POST ${start}`])
  page.document.hidden = false
  page.document.dispatchEvent(new Event('visibilitychange'))
  t.equal((await following).headers.get('content-location'), STREAM.replace('/stream', ''))
})
