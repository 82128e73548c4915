// A frame as the gateway makes it of a delta of so many characters: floors send the same bytes.
import { stamped } from './stamp.ts'

export function frameOf(size: number, isStamped = false): string {
  const text = 'x'.repeat(size)
  const data = `[{"content":"${isStamped ? stamped(text) : text}","type":"AIMessageChunk","id":"${'0'.repeat(36)}"},{"langgraph_node":"agent"}]`
  return `event: messages\ndata: ${data}\nid: 1790000000000-1000\n\n`
}
