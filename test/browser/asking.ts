// What waits for its user: an inbox of all open questions, and a card for each tool call that is to be approved.
import { ScriptedAgent } from '../fixtures/agent.ts'
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, visit } from '../fixtures/browser.ts'
import type { Json } from '../../lib/base/types.ts'
import { asked, at, openSite, type Person, until } from '../fixtures/gateway.ts'

/** A thread whose agent has asked this. */
async function asks(agent: ScriptedAgent, person: Person, title: string, value: Json): Promise<string> {
  const threadId = await person.thread()
  const begun = agent.started.length
  await person.post(`/api/threads/${threadId}/runs`, asked(title))
  await until(() => agent.started.length > begun, 'the run')
  const stage = await agent.stage({ run_id: agent.started.at(-1)! })
  stage.sink.record({ type: 'interrupt', interrupt: { id: `q-${title}`, value } })
  stage.sink.record({ type: 'step', node: 'agent' })
  stage.finish()
  const isAsking = async () => at((await person.get(`/api/threads/${threadId}`)).body, 'status') === 'interrupted'
  await until(isAsking, 'the question')
  return threadId
}

const CALLS: Json = {
  action_requests: [
    { name: 'send_mail', args: { to: 'ada@example.com', copies: 2 }, description: 'Sends a mail' },
    { name: 'delete_file', args: { path: 'a.txt' } }
  ],
  review_configs: [
    { action_name: 'send_mail', allowed_decisions: ['approve', 'edit', 'reject'] },
    { action_name: 'delete_file', allowed_decisions: ['approve', 'reject'] }
  ]
}

browserTest('each tool call has a card: one is edited by its fields, the other rejected with a reason', async (t) => {
  const agent = new ScriptedAgent()
  const site = await openSite(t, { agent })
  const person = await account(site.url, 'ada@example.com')
  const threadId = await asks(agent, person, 'mails', CALLS)
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open(`#/t/${threadId}`)
  const card = (name: string) => page.getByRole('listitem').filter({ hasText: name })
  await card('send_mail').getByRole('button', { name: 'Edit' }).press('Enter')
  await card('send_mail').getByLabel('to').fill('bob@example.com')
  await card('send_mail').getByLabel('copies').fill('many')
  await page.getByText('copies is not a number').first().waitFor()
  await card('send_mail').getByLabel('copies').fill('3')
  await isAccessible(t, visitor, 'a call that is edited')
  await card('send_mail').getByRole('button', { name: 'Use these arguments' }).press('Enter')
  t.equal(await card('delete_file').getByRole('button', { name: 'Edit' }).count(), 0, 'it may not be edited')
  await card('delete_file').getByRole('button', { name: 'Reject' }).press('Enter')
  await card('delete_file').getByLabel('Why not').fill('keep it')
  await card('delete_file').getByRole('button', { name: 'Reject' }).press('Enter')
  await page.getByText('rejected').first().waitFor()
  const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/runs/stream'))
  await page.getByRole('button', { name: 'Send', exact: true }).first().press('Enter')
  t.same((await sent).postDataJSON().command.resume, {
    decisions: [
      { type: 'edit', edited_action: { name: 'send_mail', args: { to: 'bob@example.com', copies: 3 } } },
      { type: 'reject', message: 'keep it' }
    ]
  })
})

browserTest('all open questions are answered from one place, whose number is in the tab', async (t) => {
  const agent = new ScriptedAgent()
  const site = await openSite(t, { agent })
  const person = await account(site.url, 'ada@example.com')
  await asks(agent, person, 'drinks', { question: 'Tea or coffee?', options: ['Tea', 'Coffee'] })
  const inbox = [
    { action_request: { action: 'book', args: { day: 'Monday' } }, config: { allow_accept: true, allow_ignore: true } }
  ]
  const threadId = await asks(agent, person, 'trips', inbox)
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  await page.getByRole('link', { name: 'Waits for you' }).press('Enter')
  await until(async () => (await page.title()).startsWith('(2)'), 'the number')
  await page.getByText('Tea or coffee?').first().waitFor()
  await page.getByText('May this tool be called?').first().waitFor()
  await isAccessible(t, visitor, 'the inbox')
  const begun = agent.started.length
  const sent = page.waitForRequest((request) => request.url().endsWith(`${threadId}/runs`))
  await page.getByRole('button', { name: 'Approve' }).press('Enter')
  t.same((await sent).postDataJSON().command.resume, [{ type: 'accept', args: null }])
  await until(() => agent.started.length > begun, 'the run that goes on')
  await page.getByText('May this tool be called?').waitFor({ state: 'detached' })
  await until(async () => (await page.title()).startsWith('(1)'), 'one is left')
})
