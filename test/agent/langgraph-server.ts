// The runtime `langgraph` against the real server: what people do with it.
import t from 'tap'
import { openSite } from '../fixtures/gateway.ts'
import { journey } from '../fixtures/graph-journey.ts'
import { graphFolder, startGraphServer } from '../fixtures/langgraph.ts'

const folder = await graphFolder(t)

t.test(
  'a graph on a LangGraph server',
  { skip: folder === null && 'LangGraph cannot be installed here' },
  async (t) => {
    const { url } = await startGraphServer(t, folder!)
    const config = { agent: { runtime: 'langgraph', url, assistant_id: 'agent' } }
    let site = await openSite(t, { config })
    const restart = async () => {
      await site.stop()
      site = await openSite(t, { config, home: site.home })
      return site
    }
    await journey(t, { site, restart })
  }
)
