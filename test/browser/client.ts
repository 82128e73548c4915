// colloquy.js in a browser, without the page: over a line that is cut, and a plain EventSource beside it.
import { demoWord } from '../../lib/agent/demo.ts'
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { openSite } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'

const text = (deltas: number) => Array.from({ length: deltas }, (_, n) => demoWord(n)).join('')

browserTest('colloquy.js tells each word once over fifty cuts', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await person.thread()
  const proxy = await openProxy(t, site.url)
  const visitor = await visit(t, proxy.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.page.goto(`${proxy.url}/colloquy.js`)
  // From here on every connection on which so much has come is cut.
  proxy.cutAfter(...Array.from({ length: 50 }, (_, i) => 700 + ((i * 37) % 400)))
  const told = await visitor.page.evaluate(`(async () => {
    const { Colloquy } = await import(location.href)
    const run = new Colloquy().start('${threadId}', {
      input: { messages: [{ role: 'user', content: '/demo deltas=1500 rate=500' }] }, stream_mode: ['messages-tuple']
    }, { backoffMs: 5, backoffMaxMs: 200 })
    let text = ''
    for await (const words of run.text()) text += words
    return text
  })()`)
  t.equal(proxy.cutsLeft, 0)
  t.equal(told, text(1500))
})

browserTest('a plain EventSource on a run comes back by itself, and each frame comes once', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await person.thread()
  const proxy = await openProxy(t, site.url)
  const path = await person.run(threadId, '/demo deltas=300 rate=200')
  const visitor = await visit(t, proxy.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.page.goto(`${proxy.url}/colloquy.js`)
  proxy.cutAfter(3000)
  const told = await visitor.page.evaluate(`new Promise((resolve) => {
    let text = ''
    const source = new EventSource('${path}/stream?stream_mode=messages-tuple')
    source.addEventListener('messages', ({ data }) => { text += JSON.parse(data)[0].content })
    source.addEventListener('end', () => { source.close(); resolve(text) })
  })`)
  t.equal(proxy.cutsLeft, 0, 'it was cut')
  t.equal(told, text(300))
})
