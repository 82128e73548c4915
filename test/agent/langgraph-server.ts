// The runtime `langgraph` against the real server.
import t, { type Test } from 'tap'
import { openSite, type Site } from '../fixtures/gateway.ts'
import { journey } from '../fixtures/graph-journey.ts'
import { graphFolder, startGraphServer } from '../fixtures/langgraph.ts'

const folder = await graphFolder(t)

function siteOf(t: Test, server: { readonly url: string }, more: object = {}, home?: string): Promise<Site> {
  const config = { agent: { runtime: 'langgraph', url: server.url, assistant_id: 'agent', ...more } }
  return openSite(t, { config, ...(home !== undefined && { home }) })
}

const skip = folder === null && 'LangGraph cannot be installed here'
const server = folder === null ? null : await startGraphServer(t, folder)

t.test('a graph on a LangGraph server', { skip }, async (t) => {
  let site = await siteOf(t, server!)
  const restart = async () => {
    await site.stop()
    site = await siteOf(t, server!, {}, site.home)
    return site
  }
  await journey(t, { site, restart })
})
