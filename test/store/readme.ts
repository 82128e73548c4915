// The JavaScript of lib/store/README.md, run as it stands: its event store is proved by the suites, and takes the events of a server.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { checkpointOfUpdate, markedMetadata, type OpenEventStore, StoreUnavailable } from 'colloquy'
import { eventsOverMemory, storeContract } from 'colloquy/testing'
import t from 'tap'
import { asked, listIn, openSite, signIn } from '../fixtures/gateway.ts'

const TEXT = readFileSync(new URL('../../../lib/store/README.md', import.meta.url), 'utf8')
const home = mkdtempSync(join(tmpdir(), 'colloquy-store-readme-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))

const code = /```js\n([\s\S]*?)```/.exec(TEXT.slice(TEXT.indexOf('<!-- events -->')))?.[1] ?? ''
const module = join(home, 'my-events.mjs')
writeFileSync(module, code)
// What the README says that it exports.
const { openEventStore } = (await import(pathToFileURL(module).href)) as { readonly openEventStore: OpenEventStore }

let folders = 0
storeContract(
  t,
  'the event store of the README',
  eventsOverMemory(async () => {
    const options = { folder: `events-${folders++}` }
    const open = () => openEventStore({ home, options, warn: () => {} })
    return { events: await open(), reopen: open }
  })
)

t.test('a server keeps its events in it', async (t) => {
  const site = await openSite(t, { config: { run_events: { backend: { module, options: {} } } } })
  const person = await signIn(site)
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=1000'))
  t.equal(listIn((await person.get(`/api/threads/${thread}/messages`)).body).length, 2)
})

t.test('what the README says is exported is exported', async (t) => {
  for (const one of [checkpointOfUpdate, markedMetadata, StoreUnavailable]) t.type(one, 'function')
  for (const name of ['checkpointOfUpdate', 'markedMetadata']) t.match(TEXT, name)
})
