// The runtime `module` with a compiled LangGraph.js graph out of a file.
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openSite, type Site } from '../fixtures/gateway.ts'
import { journey } from '../fixtures/graph-journey.ts'
import { graphFolder } from '../fixtures/langgraph.ts'

const folder = await graphFolder(t)

async function travel(t: Test, file: string): Promise<void> {
  const config = { agent: { runtime: 'module', path: join(folder!, file) } }
  let site: Site = await openSite(t, { config })
  const restart = async () => {
    await site.stop()
    site = await openSite(t, { config, home: site.home })
    return site
  }
  await journey(t, { site, restart })
}

const skip = folder === null && 'LangGraph cannot be installed here'

t.test('a compiled graph without a checkpointer works on our checkpoints', { skip }, (t) => travel(t, 'graph.mjs'))
t.test('a compiled graph with a checkpointer of its own keeps in step with ours', { skip }, (t) =>
  travel(t, 'keeping.mjs')
)
