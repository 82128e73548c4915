// Readers of streams, as a process of its own: raw sockets that count what arrives and keep nothing.
import { connect, type Socket } from 'node:net'
import { quantile } from './report.ts'
import { agesIn } from './stamp.ts'

/** What one reader asks for. */
export interface Asked {
  readonly path: string
  /** A POST with this JSON; else a GET. */
  readonly body?: string
  /** A WebSocket: this text is said on it once it is open. */
  readonly says?: string
  /** It is done when it has this many frames; default: that of the order, or when it was told the end. */
  readonly until?: number
  /** What stands in every frame once: of ten characters at most. Default: that of the order, or the line that has its id. */
  readonly mark?: string
}

/** What the bench says: open a reader of each of these. */
export interface ReadOrder {
  readonly url: string
  readonly asked: readonly Asked[]
  readonly headers: Readonly<Record<string, string>>
  /** Of those that say none of their own. */
  readonly until?: number
  readonly mark?: string
  /** Also keep the time from each frame to the next, which costs the readers. */
  readonly gaps?: boolean
  /** Also keep how old each frame is, of a script whose deltas say when they were made. */
  readonly ages?: boolean
}

/** What they answer: first `open` when all heads are there, then `done` when the last has everything. */
export type ReadAnswer =
  | { readonly type: 'open' }
  | {
      readonly type: 'done'
      readonly frames: number
      readonly bytes: number
      /** From opening its connection to its first frame, of every reader that got one. */
      readonly firstMs: readonly number[]
      /** From a frame to the next one of the same reader, over all readers: 99 of 100 are no longer. 0 when not asked for. */
      readonly gapP99: number
      /** In ms, of all frames; empty when not asked for. */
      readonly ages: readonly number[]
      readonly wallMs: number
    }

const END = 'event: end'
const ID = '\nid: '
/** Characters of a mark that may have come with the chunk before. */
const TAIL = END.length - 1

class Reader {
  frames = 0
  bytes = 0
  firstMs = 0
  readonly gaps: number[] = []
  readonly ages: number[] = []
  readonly #order: ReadOrder
  readonly #mark: string
  readonly #until: number
  /** What it has to say when its socket is open; then its head has come with the answer to that. */
  #says: string | null
  readonly #socket: Socket
  readonly #began = performance.now()
  #last = 0
  #tail = ''
  #setOpen: () => void = () => {}
  #setDone: () => void = () => {}
  readonly opened = new Promise<void>((resolve) => {
    this.#setOpen = resolve
  })
  readonly done = new Promise<void>((resolve) => {
    this.#setDone = resolve
  })

  constructor(order: ReadOrder, asked: Asked) {
    this.#order = order
    this.#mark = asked.mark ?? order.mark ?? ID
    this.#until = asked.until ?? order.until ?? Number.POSITIVE_INFINITY
    this.#says = asked.says ?? null
    const { hostname, port } = new URL(order.url)
    this.#socket = connect({ port: Number(port), host: hostname, noDelay: true })
    this.#socket.write(requestText(order, asked))
    this.#socket.on('data', (chunk) => this.#came(chunk))
    this.#socket.on('error', this.#setDone)
    this.#socket.on('close', () => {
      this.#setOpen()
      this.#setDone()
    })
  }

  #came(chunk: Buffer): void {
    if (this.#says !== null) return this.#subscribe(this.#says)
    this.#setOpen()
    this.bytes += chunk.length
    if (this.#order.ages) this.ages.push(...agesIn(chunk))
    const before = this.frames
    const seam = this.#tail + chunk.toString('latin1', 0, TAIL)
    const mark = this.#mark
    if (crosses(seam, mark, this.#tail.length)) this.frames++
    for (let at = chunk.indexOf(mark); at >= 0; at = chunk.indexOf(mark, at + mark.length)) this.frames++
    const isOver = chunk.includes(END) || crosses(seam, END, this.#tail.length)
    this.#tail = (this.#tail + chunk.toString('latin1', Math.max(0, chunk.length - TAIL))).slice(-TAIL)
    if (this.firstMs === 0 && this.frames > 0) this.firstMs = performance.now() - this.#began
    if (this.#order.gaps) this.#arrived(this.frames - before)
    if (!isOver && this.frames < this.#until) return
    this.#setDone()
    this.#socket.destroy()
  }

  #subscribe(text: string): void {
    this.#says = null
    this.#socket.write(maskedText(text))
  }

  /** The first of some frames waited since the last one, the others came with it. */
  #arrived(frames: number): void {
    if (frames === 0) return
    const now = performance.now()
    for (let i = 0; i < frames; i++) if (this.#last > 0) this.gaps.push(i === 0 ? now - this.#last : 0)
    this.#last = now
  }
}

/** Whether a mark lies over the seam between two chunks, `at` characters into the text around it. */
function crosses(seam: string, mark: string, at: number): boolean {
  const found = seam.indexOf(mark, Math.max(0, at - mark.length + 1))
  return found >= 0 && found < at && found + mark.length > at
}

/** As clients have to send it; a mask of zeros leaves the text as it is. Of less than 126 bytes. */
function maskedText(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from([0x81, 0x80 | bytes.length, 0, 0, 0, 0]), bytes])
}

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': Buffer.alloc(16).toString('base64')
}

function requestText({ url, headers }: ReadOrder, { path, body, says }: Asked): string {
  const length =
    body === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }
  const all = { host: new URL(url).host, ...headers, ...length, ...(says !== undefined && UPGRADE) }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`
}

process.on('message', async (order: ReadOrder) => {
  const began = performance.now()
  const readers = order.asked.map((asked) => new Reader(order, asked))
  await Promise.all(readers.map((reader) => reader.opened))
  process.send?.({ type: 'open' } satisfies ReadAnswer)
  await Promise.all(readers.map((reader) => reader.done))
  process.send?.({
    type: 'done',
    frames: readers.reduce((sum, reader) => sum + reader.frames, 0),
    bytes: readers.reduce((sum, reader) => sum + reader.bytes, 0),
    firstMs: readers.map((reader) => reader.firstMs).filter((ms) => ms > 0),
    gapP99: quantile(
      readers.flatMap((reader) => reader.gaps),
      0.99
    ),
    ages: readers.flatMap((reader) => reader.ages),
    wallMs: performance.now() - began
  } satisfies ReadAnswer)
})
