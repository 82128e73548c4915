// Conversations as files: one is exported, and read again; those that other pages have exported come by way of test/examples.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Json } from '../../lib/base/types.ts'
import { account, browserTest, threadSaying, type Visitor, visit } from '../fixtures/browser.ts'
import { asked, at, homeOf, openSite, until } from '../fixtures/gateway.ts'

/** The file of the first conversation in the list. */
async function exported({ page }: Visitor, form: string): Promise<{ name: string; text: string }> {
  await page
    .getByRole('button', { name: /^Actions for/ })
    .first()
    .press('Enter')
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('menuitem', { name: `Export as ${form}` }).press('Enter')
  ])
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') }
}

browserTest('a conversation is exported as Markdown and as JSON, and the JSON is imported again', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await person.thread()
  await person.post(`/api/threads/${threadId}/runs/wait`, asked('Say ```code``` /demo deltas=3 rate=0'))
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  const markdown = await exported(visitor, 'Markdown')
  t.match(markdown.name, /\.md$/)
  t.match(markdown.text, /^# .*\n[\s\S]*## You\n\nSay ```code```[\s\S]*## Answer\n\nw0000 w0001 w0002\n/)
  const json = await exported(visitor, 'JSON')
  t.match(JSON.parse(json.text), {
    kind: 'colloquy/conversation',
    version: 1,
    messages: [{ type: 'human' }, { type: 'ai' }]
  })

  await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
  const file = (name: string, text: string) => ({ name, mimeType: 'application/json', buffer: Buffer.from(text) })
  await page.getByLabel('Import what this page').setInputFiles(file('other.json', '{"a":1}'))
  await page.getByText('other.json has no conversations of this page').first().waitFor()
  await page.getByLabel('Import what this page').setInputFiles(file('ours.json', json.text))
  await page.getByText('1 conversation is here.').first().waitFor()
  await page.keyboard.press('Escape')
  t.match(await visitor.lastAnswer(), 'w0000 w0001 w0002')
  t.notMatch(page.url(), threadId)
  await until(async () => (await page.locator('.thread').count()) === 2, 'it is in the list')
})

/** Two questions and answers, the second answer tried again, as each page exports them. */
const EXPORTS: Readonly<Record<string, unknown>> = {
  chatgpt: [
    {
      title: 'From ChatGPT',
      create_time: 1700000000.5,
      current_node: 'f',
      mapping: {
        root: { message: null, parent: null },
        a: {
          message: { author: { role: 'user' }, content: { content_type: 'text', parts: ['Tea?'] } },
          parent: 'root'
        },
        b: { message: { author: { role: 'assistant' }, content: { content_type: 'thoughts' } }, parent: 'a' },
        c: {
          message: { author: { role: 'assistant' }, content: { content_type: 'text', parts: ['Green.'] } },
          parent: 'b'
        },
        d: {
          message: {
            author: { role: 'user' },
            content: { content_type: 'multimodal_text', parts: [{ content_type: 'image' }, 'And this?'] }
          },
          parent: 'c'
        },
        e: {
          message: { author: { role: 'assistant' }, content: { content_type: 'text', parts: ['No.'] } },
          parent: 'd'
        },
        f: {
          message: {
            author: { role: 'assistant' },
            recipient: 'all',
            content: { content_type: 'text', parts: ['Black.'] }
          },
          parent: 'd'
        }
      }
    },
    { title: 'Empty', create_time: 1, mapping: {}, current_node: null }
  ],
  'open-webui': [
    {
      title: 'From Open WebUI',
      created_at: 1700000000,
      chat: {
        history: {
          currentId: 'e',
          messages: {
            a: { parentId: null, role: 'user', content: 'Tea?' },
            b: {
              parentId: 'a',
              role: 'assistant',
              content: '<details type="reasoning" done="true"><summary>Thought</summary>Hm</details>\nGreen.'
            },
            c: { parentId: 'b', role: 'user', content: 'And this?' },
            d: { parentId: 'c', role: 'assistant', content: 'No.' },
            e: { parentId: 'c', role: 'assistant', content: 'Black.' }
          }
        }
      }
    }
  ],
  librechat: {
    conversationId: 'x',
    title: 'From LibreChat',
    recursive: true,
    messages: [
      {
        messageId: 'a',
        isCreatedByUser: true,
        text: 'Tea?',
        createdAt: '2026-01-01T00:00:00.000Z',
        children: [
          {
            messageId: 'b',
            isCreatedByUser: false,
            text: '',
            content: [
              { type: 'think', think: 'Hm' },
              { type: 'text', text: { value: 'Green.' } }
            ],
            createdAt: '2026-01-01T00:00:01.000Z',
            children: [
              {
                messageId: 'c',
                isCreatedByUser: true,
                text: 'And this?',
                createdAt: '2026-01-01T00:00:02.000Z',
                children: [
                  { messageId: 'e', isCreatedByUser: false, text: 'Black.', createdAt: '2026-01-01T00:00:04.000Z' },
                  { messageId: 'd', isCreatedByUser: false, text: 'No.', createdAt: '2026-01-01T00:00:03.000Z' }
                ]
              }
            ]
          }
        ]
      }
    ]
  }
}
const EXAMPLES = fileURLToPath(new URL('../../../test/examples/', import.meta.url))

browserTest('conversations that other pages have exported are imported', async (t) => {
  const files: string[] = []
  for (const [page, exported] of Object.entries(EXPORTS)) {
    const cwd = homeOf(t)
    writeFileSync(join(cwd, 'exported.json'), JSON.stringify(exported))
    await promisify(execFile)(process.execPath, [join(EXAMPLES, `import-${page}.mjs`), 'exported.json'], { cwd })
    const file = join(cwd, 'colloquy-1.json')
    const said = ['Tea?', 'Green.', 'And this?', 'Black.']
    const messages = said.map((content, i) => ({ type: i % 2 === 0 ? 'human' : 'ai', content }))
    t.match(JSON.parse(readFileSync(file, 'utf8')), [{ messages }], page)
    t.equal(at(JSON.parse(readFileSync(file, 'utf8')), 1), undefined, 'an empty one is left out')
    files.push(file)
  }
  const site = await openSite(t)
  const visitor = await visit(t, site.url, { person: await account(site.url, 'ada@example.com') })
  const { page } = visitor
  await visitor.open()
  await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
  await page.getByLabel('Import what this page').setInputFiles(files)
  await page.getByText('3 conversations are here.').first().waitFor()
  await page.keyboard.press('Escape')
  t.match(await visitor.lastAnswer(), 'Black.')
  for (const title of ['From ChatGPT', 'From Open WebUI', 'From LibreChat'])
    await page.locator('.thread').filter({ hasText: title }).waitFor()
})

browserTest('a conversation is exported with its images', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const image = (name: string): Json => ({ type: 'image_url', image_url: { url: `https://images.example/${name}` } })
  const shown = (name: string) => `![Image](<https://images.example/${name}>)`
  const seen: Json = [{ type: 'text', text: 'one' }, image('2'), { type: 'text', text: 'three' }]
  await threadSaying(
    person,
    [{ type: 'text', text: 'Look.' }, image('4')],
    [
      { type: 'ai', id: 'c', content: '', tool_calls: [{ id: 't', name: 'look', args: {} }] },
      { type: 'tool', id: 'r', tool_call_id: 't', name: 'look', content: seen }
    ]
  )
  const visitor = await visit(t, site.url, { person })
  await visitor.open()
  const text = await exported(visitor, 'Markdown')
  t.match(text.text, `> Result of look\n\n\`\`\`\none\n\`\`\`\n\n${shown('2')}\n\n\`\`\`\nthree\n\`\`\`\n`)
  t.match(text.text, `## Answer\n\nLook.\n\n${shown('4')}\n`)
})
