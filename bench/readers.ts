// Readers of a stream, as a process of its own: raw sockets that count what arrives and keep nothing.
import { connect, type Socket } from 'node:net'
import { quantile } from './report.ts'

/** What the bench says: open a reader of each of these paths. */
export interface ReadOrder {
  readonly url: string
  readonly paths: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** Also keep the time from each frame to the next, which costs the readers. */
  readonly gaps?: boolean
}

/** What they answer: first `open` when all heads are there, then `done` when the last has everything. */
export type ReadAnswer =
  | { readonly type: 'open' }
  | {
      readonly type: 'done'
      readonly frames: number
      readonly bytes: number
      readonly firstMs: readonly number[]
      /** From a frame to the next one of the same reader, over all readers: 99 of 100 are no longer. 0 when not asked for. */
      readonly gapP99: number
      readonly wallMs: number
    }

const END = 'event: end'

class Reader {
  frames = 0
  bytes = 0
  firstMs = 0
  readonly gaps: number[] = []
  #last = 0
  readonly opened: Promise<void>
  readonly ended: Promise<void>

  constructor({ url, headers, gaps = false }: ReadOrder, path: string) {
    const { hostname, port, host } = new URL(url)
    const began = performance.now()
    const socket: Socket = connect(Number(port), hostname)
    const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
    let setOpen = () => {}
    let setEnded = () => {}
    this.opened = new Promise((resolve) => {
      setOpen = resolve
    })
    this.ended = new Promise((resolve) => {
      setEnded = resolve
    })
    socket.on('data', (chunk) => {
      setOpen()
      this.bytes += chunk.length
      const before = this.frames
      for (let at = chunk.indexOf('\nid: '); at >= 0; at = chunk.indexOf('\nid: ', at + 5)) this.frames++
      if (gaps) this.#arrived(this.frames - before)
      if (this.firstMs === 0 && this.frames > 0) this.firstMs = performance.now() - began
      if (chunk.includes(END)) {
        setEnded()
        socket.destroy()
      }
    })
    socket.on('error', setEnded)
    socket.on('close', setEnded)
  }

  /** The first of some frames waited since the last one, the others came with it. */
  #arrived(frames: number): void {
    if (frames === 0) return
    const now = performance.now()
    for (let i = 0; i < frames; i++) if (this.#last > 0) this.gaps.push(i === 0 ? now - this.#last : 0)
    this.#last = now
  }
}

process.on('message', async (order: ReadOrder) => {
  const began = performance.now()
  const readers = order.paths.map((path) => new Reader(order, path))
  await Promise.all(readers.map((reader) => reader.opened))
  process.send?.({ type: 'open' } satisfies ReadAnswer)
  await Promise.all(readers.map((reader) => reader.ended))
  process.send?.({
    type: 'done',
    frames: readers.reduce((sum, reader) => sum + reader.frames, 0),
    bytes: readers.reduce((sum, reader) => sum + reader.bytes, 0),
    firstMs: readers.map((reader) => reader.firstMs),
    gapP99: quantile(
      readers.flatMap((reader) => reader.gaps),
      0.99
    ),
    wallMs: performance.now() - began
  } satisfies ReadAnswer)
})
