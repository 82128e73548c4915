// Sub-agents in the conversation: each in a lane with its own words, also of who comes later and when all is over.
import { aCall, ScriptedAgent } from '../fixtures/agent.ts'
import { browserTest, visit, visitSite } from '../fixtures/browser.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { textIn, until } from '../fixtures/gateway.ts'

browserTest(
  'a sub-agent has a lane with its words below its call, one of its own inside, while it works, after a reload and later',
  async (t) => {
    const { site, person } = await graphSite(t, { graphs: { studying: 'hooks.mjs:studying' } })
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
    await visitor.open()
    await visitor.say('Study the books')
    const lane = page.locator('.lanes > li').first()
    await lane.getByText('page5', { exact: false }).first().waitFor()
    t.equal(await lane.locator('summary').first().innerText(), 'scholar')
    t.equal(
      await page.locator('.message.ai > .markdown', { hasText: 'page' }).count(),
      0,
      'its words are not the answer'
    )
    await page.reload()
    await lane.getByText('page20', { exact: false }).first().waitFor()
    t.match(await lane.locator('.markdown').first().innerText(), /^page0 page1 /, 'from its first word')
    await visitor.answered()
    t.equal(await visitor.lastAnswer(), 'it has been studied')
    await lane.locator('summary').first().click()
    t.match(await lane.locator('.markdown').first().innerText(), /page0 .* page79$/)
    const inside = lane.locator('.lanes > li')
    await inside.locator('summary').first().click()
    t.equal(await inside.locator('.markdown').first().innerText(), 'said below')

    // Who comes when it is over.
    await page.reload()
    await visitor.answered()
    t.equal(await page.locator('.lanes').count(), 0)
    await page.locator('.fold', { hasText: 'Sub-agents' }).locator('summary').click()
    await lane.locator('summary').first().click()
    t.match(await lane.locator('.markdown').first().innerText(), /page0 .* page79$/)
    const call = page.locator('.fold.call')
    await call.locator('summary').click()
    t.match(await call.locator('.took').innerText(), /^\d+\.\d s/)

    const threadId = await visitor.threadId()
    const runId = textIn((await person.get(`/api/threads/${threadId}/runs`)).body, 0, 'run_id')
    await visitor.open(`#/t/${threadId}/r/${runId}`)
    await page.getByRole('tab', { name: 'Replay' }).click()
    await page.getByLabel('Position in the run').fill('0')
    await until(async () => !(await page.locator('.replayed').innerText()).includes('page79'), 'the beginning')
    await page.getByLabel('Speed').selectOption('20')
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    await until(async () => (await page.locator('.replayed').innerText()).includes('it has been studied'), 'the end')
    t.match(await page.locator('.replayed .lanes .markdown').first().innerText(), /page0 .* page79$/)
  }
)

browserTest('an agent whose sub-agent speaks is not silent', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor, page } = await visitSite(t, { agent, config: { streams: { heartbeat_ms: 60_000 } } })
  await page.clock.install()
  await visitor.open()
  await visitor.say('Study the books')
  await until(() => agent.started.length === 1, 'the run')
  const stage = await agent.stage({ run_id: agent.started[0]! })
  const call = aCall('c1', 'task', { agent: 'scholar' })
  stage.callPiece({ index: 0, id: 'c1', name: call.name, args: JSON.stringify(call.args) }, 'm1')
  stage.reply('', { id: 'm1', tool_calls: [call] })
  const speaks = async (content: string) => {
    const json = JSON.stringify([{ type: 'AIMessageChunk', id: 'lane', content }, { langgraph_node: 'scholar' }])
    stage.sink.emit({ type: 'frame', mode: 'messages', event: 'messages|tools:1', json })
    await page.locator('.lanes').getByText(content.trim()).waitFor()
  }
  for (const word of ['page0 ', 'page1 ', 'page2 ', 'page3 ']) {
    await speaks(word)
    await page.clock.runFor(5000)
    t.equal(await page.getByText(/nothing for/).count(), 0, `while it says ${word}`)
  }
  await page.clock.runFor(5000)
  await page.getByText('Waiting for task: nothing for').waitFor()
})
