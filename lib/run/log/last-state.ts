// The state that a run has shown last: it may have what no checkpoint keeps.
import { Kind } from './filter.ts'
import { framesFrom } from './oversized-reader.ts'
import type { RunLog } from './run-log.ts'
import { dataOf } from './sse.ts'

/** So many frames may follow it. */
const LOOK_BACK = 100
/** Not one of a graph inside of the graph, and none that only asks. */
const SHOWN = 'event: values\ndata: '
const ASKING = `${SHOWN}{"__interrupt__":`

/** JSON; null: it is further back, or its frames are gone. */
export async function lastStateIn(log: RunLog): Promise<string | null> {
  let last: string | null = null
  for await (const { kind, bytes } of framesFrom(log, Math.max(0, log.head - LOOK_BACK))) {
    if (kind !== Kind.state) continue
    const head = bytes.toString('utf8', 0, ASKING.length)
    if (head.startsWith(SHOWN) && head !== ASKING) last = dataOf(bytes)
  }
  return last
}
