// The tree of a run's graphs (`agent.getTree`), from its lifecycle events.
import { setImmediate as turn } from 'node:timers/promises'
import { piecesOf } from '../../protocols/feed.ts'
import type { RunLog } from '../../run/log/run-log.ts'
import type { Run } from '../../base/types.ts'
import { type Encoding, EventFeed } from './feed.ts'
import { eventFilter } from './subscription.ts'
import { steady } from './subscriptions.ts'
import { graphName, statusOf } from './translate.ts'

type GraphNode = {
  readonly namespace: string[]
  status: string
  readonly graph_name: string
  children?: GraphNode[]
}

const LINES: Encoding = { bytes: (events) => Buffer.from(events.map(({ json }) => `${json}\n`).join('')) }
const LIFECYCLE = steady(eventFilter({ channels: ['lifecycle'] }))

export async function treeOf(run: Run, log: RunLog): Promise<GraphNode> {
  const root: GraphNode = { namespace: [], status: statusOf(run), graph_name: graphName(run) }
  const nodes = new Map<string, GraphNode>()
  for await (const { namespace, data } of lifecycleOf(run, log)) {
    if (namespace.length === 0) continue
    const known = nodes.get(namespace.join('|'))
    if (known) known.status = data.event
    else {
      const node = { namespace, status: data.event, graph_name: data.graph_name }
      nodes.set(namespace.join('|'), node)
      const parent = nodes.get(namespace.slice(0, -1).join('|')) ?? root
      parent.children = [...(parent.children ?? []), node]
    }
  }
  return root
}

interface LifecycleParams {
  readonly namespace: string[]
  readonly data: { readonly event: string; readonly graph_name: string }
}

async function* lifecycleOf(run: Run, log: RunLog): AsyncGenerator<LifecycleParams> {
  for await (const { bytes } of piecesOf(new EventFeed(run, log, LINES, () => LIFECYCLE))) {
    for (const line of bytes.toString().split('\n').slice(0, -1)) yield JSON.parse(line).params
    // Yields to the loop: a log may be long.
    await turn()
  }
}
