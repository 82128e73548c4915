// The page without its server: it opens, keeps what is written, sends each message once when the server is back, and leaves nothing on the
// device of who is signed out.
import type { Test } from 'tap'
import { account, browserTest, visit, type Visitor } from '../fixtures/browser.ts'
import { at, listIn, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'

async function overProxy(test: Test) {
  const site = await openSite(test)
  const proxy = await openProxy(test, site.url)
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  const person = await account(site.url, 'ada@example.com')
  const visitor = await visit(test, proxy.url, { person, context: { serviceWorkers: 'allow' } })
  visitor.expect(/net::ERR_|WebSocket|Failed to load resource|status of 40[14]/)
  await visitor.open()
  await visitor.page.locator('.welcome').waitFor()
  await visitor.page.evaluate('navigator.serviceWorker.ready.then(() => {})')
  return { site, proxy, person, visitor }
}

/** What every store of the browser has, as one text. */
function everythingKept({ page }: Visitor): Promise<string> {
  return page.evaluate<string>(`(async () => {
    const found = [JSON.stringify({ ...localStorage })]
    for (const { name } of await indexedDB.databases()) {
      const db = await new Promise((resolve) => {
        const request = indexedDB.open(name)
        request.onsuccess = () => resolve(request.result)
      })
      for (const store of db.objectStoreNames) {
        const all = await new Promise((resolve) => {
          const request = db.transaction(store).objectStore(store).getAll()
          request.onsuccess = () => resolve(request.result)
        })
        for (const one of all) {
          found.push(JSON.stringify(one))
          for (const file of Array.isArray(one) ? one : []) if (file instanceof File) found.push(file.name, await file.text())
        }
      }
      db.close()
    }
    for (const name of await caches.keys())
      for (const request of await (await caches.open(name)).keys()) found.push(new URL(request.url).pathname)
    return found.join(' ')
  })()`)
}

const textsOf = (messages: unknown) => listIn(messages).map((one) => textIn(one, 'content'))

async function asked(person: Person, threadId: string): Promise<string[]> {
  const { body } = await person.get(`/api/threads/${threadId}/state`)
  return textsOf(listIn(body, 'values', 'messages').filter((one) => at(one, 'type') === 'human'))
}

browserTest('a first message without a server needs no file that was not kept', async (t) => {
  const { proxy, visitor } = await overProxy(t)
  const { page } = visitor
  proxy.down()
  await page.reload()
  await page.getByText('The server does not answer').first().waitFor()
  await visitor.say('written in a tunnel')
  await page.getByRole('list', { name: 'Waiting messages' }).getByText('written in a tunnel').waitFor()
  const views = ['plan', 'lane-list', 'question', 'review', 'palette', 'thread-dialogs']
  const missing = await page.evaluate(`(async () => {
    const main = document.querySelector('script[type=module]').src
    const come = (name) => import(new URL(name + '.js', main)).then(() => null, () => name)
    return (await Promise.all(${JSON.stringify(views)}.map(come))).filter(Boolean)
  })()`)
  t.same(missing, [])
})

browserTest(
  'messages written without a server wait, also over a reload, are changed and removed, and each is sent once',
  async (t) => {
    const { proxy, person, visitor } = await overProxy(t)
    const { page } = visitor
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    const threadId = await visitor.threadId()
    proxy.down()
    await page.reload()
    await page.getByText('The server does not answer').first().waitFor()
    const waiting = page.getByRole('list', { name: 'Waiting messages' }).locator('li')
    for (const text of ['/demo deltas=4 rate=0', 'not this one', '/demo deltas=5 rate=0 wrong']) await visitor.say(text)
    await waiting.nth(2).waitFor()
    t.equal(await waiting.getByText('not sent yet').count(), 3)
    await page.reload()
    await waiting.nth(2).waitFor()
    await waiting.nth(1).getByRole('button', { name: 'Remove the unsent message' }).click()
    await waiting.nth(1).getByRole('button', { name: 'Edit the unsent message' }).click()
    await until(
      async () => (await page.inputValue('#composer')) === '/demo deltas=5 rate=0 wrong',
      'it is written anew'
    )
    await visitor.say('/demo deltas=5 rate=0')
    await waiting.nth(1).waitFor()
    t.equal(await waiting.count(), 2)
    // It waits for its thread from anywhere.
    await page.goto(`${visitor.url}/#/`)
    await page.getByRole('link', { name: 'Not sent yet 2' }).waitFor()
    proxy.up()
    const all = ['/demo deltas=3 rate=0', '/demo deltas=4 rate=0', '/demo deltas=5 rate=0']
    await until(async () => (await asked(person, threadId)).length === 3, 'both are sent')
    t.same(await asked(person, threadId), all)
    await page.getByRole('link', { name: 'Not sent yet' }).waitFor({ state: 'detached' })
    await visitor.open(`#/t/${threadId}`)
    await visitor.hasWords('w0004')
    t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 3)
  }
)

browserTest(
  'a first message and its file, written without a server in a tab that is closed, are sent by the next one',
  async (t) => {
    const { proxy, person, visitor } = await overProxy(t)
    proxy.down()
    await visitor.page.reload()
    await visitor.page.getByText('The server does not answer').first().waitFor()
    const file = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('for the agent') }
    await visitor.page.locator('input[type=file]').setInputFiles(file)
    await visitor.page.fill('#composer', '/demo deltas=4 rate=0')
    await visitor.page.locator('.composer').getByText('waits for the server').waitFor()
    await visitor.page.close()
    const next = await visitor.tab()
    next.expect(/net::ERR_|WebSocket|Failed to load resource|status of 40[14]/)
    await next.open()
    // The draft is there with its file.
    await next.page.locator('.composer').getByText('notes.txt').waitFor()
    t.equal(await next.page.inputValue('#composer'), '/demo deltas=4 rate=0')
    await next.page.locator('#composer').press('Enter')
    const threadId = await next.threadId()
    await next.page.getByRole('list', { name: 'Waiting messages' }).getByText('notes.txt').waitFor()
    proxy.up()
    await next.hasWords('w0003')
    await next.page.locator('.message.human .files').getByText('notes.txt').waitFor()
    t.same(await asked(person, threadId), ['/demo deltas=4 rate=0'])
    t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 1)
  }
)

browserTest('what is refused when the server is back stays, says why, and can be changed', async (t) => {
  const { proxy, person, visitor } = await overProxy(t)
  const { page } = visitor
  const threadId = await person.thread()
  await visitor.open(`#/t/${threadId}`)
  await page.locator('#composer').waitFor()
  proxy.down()
  await page.reload()
  await page.getByText('The server does not answer').first().waitFor()
  await visitor.say('to a thread that is gone')
  await page.getByText('not sent yet').first().waitFor()
  await person.ask('DELETE', `/api/threads/${threadId}`)
  proxy.up()
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).locator('li')
  await waiting.filter({ hasText: /not found|does not exist/i }).waitFor()
  await waiting.getByRole('button', { name: 'Edit the unsent message' }).click()
  await until(async () => (await page.inputValue('#composer')) === 'to a thread that is gone', 'it can be changed')
})

for (const [how, end] of Object.entries({
  'signed out': async ({ page }: Visitor, _: Person) => {
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.getByLabel('E-mail').waitFor()
  },
  'refused with a 401': async ({ page }: Visitor, person: Person) => {
    await person.post('/api/v1/auth/change-password', { current_password: PASSWORD, new_password: 'another-horse-43' })
    await page.getByText('Your session has ended').first().waitFor()
  },
  'followed by another user': async (visitor: Visitor, _: Person) => {
    const eve = await account(visitor.url, 'eve@example.com')
    await visitor.become(eve)
    await visitor.page.reload()
    await visitor.page.getByRole('button', { name: 'eve@example.com', exact: true }).waitFor()
  }
}))
  browserTest(`nothing of who is ${how} stays on the device`, async (t) => {
    const { proxy, person, visitor } = await overProxy(t)
    const { page } = visitor
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    const thread = await visitor.threadId()
    proxy.down()
    await page.reload()
    await page.getByText('The server does not answer').first().waitFor()
    await visitor.say('a message that waits')
    await page.getByText('not sent yet').first().waitFor()
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'secret.txt', mimeType: 'text/plain', buffer: Buffer.from('in a file') })
    await page.locator('.composer').getByText('waits for the server').waitFor()
    await page.fill('#composer', 'a draft of Ada')
    const secrets = ['a message that waits', 'a draft of Ada', 'secret.txt', 'in a file', thread, 'ada@example.com']
    await until(async () => {
      const kept = await everythingKept(visitor)
      return secrets.every((one) => kept.includes(one))
    }, 'all of it is kept until then')
    // What waits stays there: the server is back for everything else.
    await page.route(/\/(runs|uploads)\b/, (route) => route.abort())
    proxy.up()
    await page.getByText('The server does not answer').waitFor({ state: 'detached' })
    await end(visitor, person)
    await until(async () => {
      const kept = await everythingKept(visitor)
      return secrets.every((one) => !kept.includes(one))
    }, 'nothing is kept any more')
    // Who has signed out may not ask any more; nobody was sent what waited.
    t.same(await asked(person, thread).catch(() => []), how === 'signed out' ? [] : ['/demo deltas=3 rate=0'])
  })

browserTest(
  'conversations are on the device only where their user has ticked it, and go when it is unticked',
  async (t) => {
    const { proxy, visitor } = await overProxy(t)
    const { page } = visitor
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    const threadId = await visitor.threadId()
    const said = 'w0000 w0001 w0002'
    t.notOk((await everythingKept(visitor)).includes('w0001'), 'nothing of what was said')
    const tick = async () => {
      await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
      await page.getByLabel('Keep conversations on this device').click()
      await page.getByRole('button', { name: 'Close' }).click()
    }
    await tick()
    await page.reload()
    await visitor.answered()
    await until(async () => (await everythingKept(visitor)).includes('w0001'), 'it is kept')
    proxy.down()
    await page.reload()
    await visitor.hasWords(said)
    await page.locator(`[data-thread="${threadId}"]`).waitFor()
    await page.getByText('The server does not answer').first().waitFor()
    proxy.up()
    await page.getByText('The server does not answer').waitFor({ state: 'detached' })
    await visitor.answered()
    await tick()
    await until(async () => !(await everythingKept(visitor)).includes('w0001'), 'it is gone')
    proxy.down()
    await page.reload()
    await page.getByText('The server does not answer').first().waitFor()
    t.equal(await page.locator('.message').count(), 0)
  }
)

browserTest('the page opens, reads and waits likewise where a proxy answers for its server', async (t) => {
  const { proxy, person, visitor } = await overProxy(t)
  const { page } = visitor
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  const threadId = await visitor.threadId()
  await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
  await page.getByLabel('Keep conversations on this device').click()
  await page.getByRole('button', { name: 'Close' }).click()
  await page.reload()
  await until(async () => (await everythingKept(visitor)).includes('w0001'), 'it is kept')
  proxy.standIn()
  await page.reload()
  await visitor.hasWords('w0000 w0001 w0002')
  await page.getByText('The server does not answer').first().waitFor()
  await visitor.say('/demo deltas=4 rate=0')
  await page.getByRole('list', { name: 'Waiting messages' }).getByText('not sent yet').waitFor()
  proxy.up()
  await until(async () => (await asked(person, threadId)).length === 2, 'it is sent')
  await page.getByText('The server does not answer').waitFor({ state: 'detached' })
  await visitor.hasWords('w0003')
})
