// A frame as the gateway makes it of a delta of so many characters: floors send the same bytes.
export function frameOf(size: number): string {
  const data = `[{"content":"${'x'.repeat(size)}","type":"AIMessageChunk","id":"${'0'.repeat(36)}"},{"langgraph_node":"agent"}]`
  return `event: messages\ndata: ${data}\nid: 1790000000000-1000\n\n`
}
