// What waits for its user: an inbox of all open questions, and a card for each tool call that is to be approved.
import type { Page } from 'playwright-core'
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

browserTest('a call that came with a schema is edited in a form of it', async (t) => {
  const agent = new ScriptedAgent()
  const site = await openSite(t, { agent })
  const person = await account(site.url, 'ada@example.com')
  const optional: Json = { anyOf: [{ type: 'string' }, { type: 'null' }], default: null }
  const properties: Json = {
    to: { type: 'string', description: 'Whom it goes to' },
    priority: { enum: ['low', 'high'] },
    copies: { type: 'integer' },
    subject: optional,
    note: optional,
    urgent: { type: 'boolean' }
  }
  const threadId = await asks(agent, person, 'form', {
    action_requests: [{ name: 'send_mail', args: { to: 'ada@example.com', priority: 'low' } }],
    review_configs: [{ action_name: 'send_mail', args_schema: { type: 'object', properties, required: ['to'] } }]
  })
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open(`#/t/${threadId}`)
  const card = page.getByRole('listitem').filter({ hasText: 'send_mail' })
  await card.getByRole('button', { name: 'Edit' }).click()
  await card.getByText('Whom it goes to').waitFor()
  t.same(await card.getByLabel('priority').locator('option').allTextContents(), ['', 'low', 'high'])
  await card.getByLabel('priority').selectOption('high')
  await card.getByLabel('copies').fill('many')
  await card.getByLabel('subject').fill('2026')
  await card.getByText('copies is not a number').waitFor()
  t.ok(await card.getByRole('button', { name: 'Use these arguments' }).isDisabled(), 'another field does not hide it')
  await card.getByLabel('copies').fill('2')
  await card.getByLabel('urgent').check()
  await isAccessible(t, visitor, 'a form of a schema')
  const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/runs/stream'))
  await card.getByRole('button', { name: 'Use these arguments' }).click()
  const args = { to: 'ada@example.com', priority: 'high', copies: 2, subject: '2026', urgent: true }
  t.same((await sent).postDataJSON().command.resume, {
    decisions: [{ type: 'edit', edited_action: { name: 'send_mail', args } }]
  })
})

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
  // What was chosen stays: while the agent goes on, when it has, after a reload, and on another device.
  const stays = async (where: Page, when: string) => {
    const cards = where.getByRole('list', { name: 'What was chosen' }).getByRole('listitem')
    await cards.nth(1).waitFor()
    const [mail = '', file = ''] = (await cards.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
    t.equal(mail, 'send_mail edited to bob@example.com copies 3', when)
    t.equal(file, 'delete_file rejected keep it path a.txt', when)
    t.equal(await where.locator('.question').count(), 0, 'and is asked no more')
  }
  await until(() => agent.started.length === 2, 'the run that goes on')
  const stage = await agent.stage({ run_id: agent.started[1]! })
  stage.say('Sent.')
  await visitor.hasWords('Sent.')
  await stays(page, 'while the agent goes on')
  await isAccessible(t, visitor, 'what was chosen')
  await page.reload()
  await visitor.hasWords('Sent.')
  await stays(page, 'after a reload in its middle')
  stage.reply('Sent.')
  stage.finish()
  await visitor.answered()
  await stays(page, 'when it has gone on')
  t.ok(
    await page.evaluate(`document.querySelector('.message.human').compareDocumentPosition(document.querySelector('.chosen'))
      === Node.DOCUMENT_POSITION_FOLLOWING && document.querySelector('.chosen')
      .compareDocumentPosition(document.querySelector('.message.ai')) === Node.DOCUMENT_POSITION_FOLLOWING`),
    'between what was asked and what came of it'
  )
  await page.reload()
  await visitor.answered()
  await stays(page, 'after a reload')
  const device = await visit(t, site.url, { person })
  await device.open(`#/t/${threadId}`)
  await stays(device.page, 'on another device')
})

browserTest(
  'an answer to a question of a graph stays, in words; one that is long is cut, and not refused',
  async (t) => {
    const agent = new ScriptedAgent()
    const site = await openSite(t, { agent })
    const person = await account(site.url, 'ada@example.com')
    const threadId = await asks(agent, person, 'drinks', { question: 'Tea or coffee?', options: ['Tea', 'Coffee'] })
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
    await visitor.open(`#/t/${threadId}`)
    await page.getByRole('button', { name: 'Tea', exact: true }).click()
    const chosen = page.getByRole('list', { name: 'What was chosen' }).getByRole('listitem')
    const words = async () => (await chosen.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
    await chosen.waitFor()
    t.same(await words(), ['Tea or coffee? Tea'])
    // It asks again, without a word.
    await until(() => agent.started.length === 2, 'the run that goes on')
    const stage = await agent.stage({ run_id: agent.started[1]! })
    const name = 'write_file'
    const calls = Array.from({ length: 40 }, () => ({ name, args: { content: 'long '.repeat(2000) } }))
    stage.sink.record({ type: 'interrupt', interrupt: { id: 'again', value: { action_requests: calls } } })
    stage.sink.record({ type: 'step', node: 'agent' })
    stage.finish()
    await page.getByRole('button', { name: 'Approve the rest' }).click()
    await page.locator('.question').getByRole('button', { name: 'Send', exact: true }).click()
    await until(() => agent.started.length === 3, 'nothing is refused')
    const last = await agent.stage({ run_id: agent.started[2]! })
    last.reply('Written.')
    last.finish()
    await visitor.answered()
    await page.reload()
    await visitor.answered()
    await chosen.nth(40).waitFor()
    t.same((await words()).slice(0, 2), ['Tea or coffee? Tea', 'write_file approved'])
  }
)

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
  await visitor.open(`#/t/${threadId}`)
  const chosen = page.getByRole('list', { name: 'What was chosen' }).getByRole('listitem')
  await chosen.getByText('approved').waitFor()
  t.match((await chosen.innerText()).replace(/\s+/g, ' '), /book approved day Monday/, 'what was chosen there is here')
})
