// Events as bytes: for an event stream, and for a WebSocket.
import { textFrames } from '../../http/web-socket.ts'
import type { Encoding } from './feed.ts'

export const sseEncoding: Encoding = {
  bytes: (events) => {
    let text = ''
    for (const { id, method, json } of events) text += `id: ${id}\nevent: ${method}\ndata: ${json}\n\n`
    return Buffer.from(text)
  }
}

export const webSocketEncoding: Encoding = {
  bytes: (events) => textFrames(events.map(({ json }) => json))
}
