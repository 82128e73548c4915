// Readers of a stream, as a process of its own: raw sockets that count what arrives and keep nothing.
import { connect, type Socket } from 'node:net'

/** What the bench says: open so many readers of a path. */
export interface ReadOrder {
  readonly url: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly count: number
}

/** What they answer: first `open` when all heads are there, then `done` when the last has everything. */
export type ReadAnswer =
  | { readonly type: 'open' }
  | {
      readonly type: 'done'
      readonly frames: number
      readonly bytes: number
      readonly firstMs: readonly number[]
      readonly wallMs: number
    }

const END = 'event: end'

class Reader {
  frames = 0
  bytes = 0
  firstMs = 0
  readonly opened: Promise<void>
  readonly ended: Promise<void>

  constructor({ url, path, headers }: ReadOrder) {
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
      for (let at = chunk.indexOf('\nid: '); at >= 0; at = chunk.indexOf('\nid: ', at + 5)) this.frames++
      if (this.firstMs === 0 && this.frames > 0) this.firstMs = performance.now() - began
      if (chunk.includes(END)) {
        setEnded()
        socket.destroy()
      }
    })
    socket.on('error', setEnded)
    socket.on('close', setEnded)
  }
}

process.on('message', async (order: ReadOrder) => {
  const began = performance.now()
  const readers = Array.from({ length: order.count }, () => new Reader(order))
  await Promise.all(readers.map((reader) => reader.opened))
  process.send?.({ type: 'open' } satisfies ReadAnswer)
  await Promise.all(readers.map((reader) => reader.ended))
  process.send?.({
    type: 'done',
    frames: readers.reduce((sum, reader) => sum + reader.frames, 0),
    bytes: readers.reduce((sum, reader) => sum + reader.bytes, 0),
    firstMs: readers.map((reader) => reader.firstMs),
    wallMs: performance.now() - began
  } satisfies ReadAnswer)
})
