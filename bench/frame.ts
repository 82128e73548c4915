// A frame as the gateway makes it of a delta of so many characters, in the words of each protocol: floors send the same bytes.
import { stamped } from './stamp.ts'

export function frameOf(size: number, isStamped = false): string {
  const text = 'x'.repeat(size)
  const data = `[{"content":"${isStamped ? stamped(text) : text}","type":"AIMessageChunk","id":"${'0'.repeat(36)}"},{"langgraph_node":"agent"}]`
  return `event: messages\ndata: ${data}\nid: 1790000000000-1000\n\n`
}

/** The same delta as an event of protocol v2: a WebSocket message, or the data of a server-sent event. */
export function eventOf(size: number): string {
  const delta = `{"event":"content-block-delta","index":0,"delta":{"type":"text-delta","text":"${'x'.repeat(size)}"}}`
  const params = `{"namespace":[],"timestamp":1790000000000,"node":"agent","data":${delta}}`
  return `{"type":"event","event_id":"8590000000-mua0000","seq":8590000000,"method":"messages","params":${params}}`
}

/** The same as a server-sent event. */
export function eventFrameOf(size: number): string {
  return `id: 8590000000-mua0000\nevent: messages\ndata: ${eventOf(size)}\n\n`
}
