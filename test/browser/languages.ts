// The page in other languages: no word of its templates is without a translation, and it is as light and as clean as in English.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { isAccessible } from '../fixtures/axe.ts'
import type { Json } from '../../lib/base/types.ts'
import { aCall, ScriptedAgent } from '../fixtures/agent.ts'
import { account, browserTest, type Visitor, visit } from '../fixtures/browser.ts'
import { listIn, openSite, PASSWORD, Person, until } from '../fixtures/gateway.ts'

const PAGE = fileURLToPath(new URL('../../../lib/console/', import.meta.url))
/** English alone: the API's reference, and what operators and developers look into. */
const ENGLISH = /^(docs|inspector|replay|recording|overview|installation|people|usage|figures|worker|words|sentences)/
/** Names are the same everywhere. */
const NAMES = ['Colloquy']
const HOLE = '\uE000'
const hasWords = (text: string) => /[A-Za-z]{2}/.test(text) && !NAMES.includes(text)

/** A template's own texts, with marks where values stand. */
function wholeOf({ template }: ts.TaggedTemplateExpression): string {
  if (ts.isNoSubstitutionTemplateLiteral(template)) return template.text
  return [template.head.text, ...template.templateSpans.map(({ literal }) => literal.text)].join(HOLE)
}

function wordsOf(template: ts.TaggedTemplateExpression): string[] {
  const whole = wholeOf(template)
  const texts = [...whole.matchAll(/(?:^|>)([^<]+)(?=<|$)/g)].flatMap(([, text = '']) => text.split(HOLE))
  const attributes = whole.matchAll(/\s(?:aria-label|title|placeholder|label|alt)="([^"\uE000]+)"/g)
  return [...texts, ...[...attributes].map(([, text = '']) => text)].map((text) => text.trim().replace(/\s+/g, ' '))
}

const isHtml = (node: ts.Node): node is ts.TaggedTemplateExpression =>
  ts.isTaggedTemplateExpression(node) && node.tag.getText() === 'html'

/** Words in place of a value which no call translates: each branch of what may be shown. */
function bareIn(value: ts.Expression): string[] {
  if (ts.isParenthesizedExpression(value)) return bareIn(value.expression)
  if (ts.isConditionalExpression(value)) return [...bareIn(value.whenTrue), ...bareIn(value.whenFalse)]
  if (ts.isBinaryExpression(value)) return bareIn(value.right)
  if (ts.isStringLiteralLike(value)) return [value.text].filter(hasWords)
  if (!ts.isTemplateExpression(value)) return []
  return [value.head.text, ...value.templateSpans.map(({ literal }) => literal.text)].filter(hasWords)
}

/** Texts among which a value is chosen. */
function literalsIn(value: ts.Expression): string[] {
  if (ts.isConditionalExpression(value)) return [...literalsIn(value.whenTrue), ...literalsIn(value.whenFalse)]
  return ts.isStringLiteralLike(value) && hasWords(value.text) ? [value.text] : []
}

/** Words around what is filled in before they are translated: no file has them. */
function filledIn(value: ts.Expression): string[] {
  if (ts.isConditionalExpression(value)) return [...filledIn(value.whenTrue), ...filledIn(value.whenFalse)]
  return ts.isTemplateExpression(value) ? bareIn(value) : []
}

/** Values that are shown: texts, and what names an element. */
function shownIn({ template }: ts.TaggedTemplateExpression): ts.Expression[] {
  if (!ts.isTemplateExpression(template)) return []
  let before = template.head.text
  let whole = before
  return template.templateSpans.flatMap(({ expression, literal }) => {
    const isInTag = whole.lastIndexOf('<') > whole.lastIndexOf('>')
    const isShown = !isInTag || /(aria-label|title|placeholder|label|alt)=$/.test(before)
    before = literal.text
    whole += HOLE + before
    return isShown ? [expression] : []
  })
}

function read(name: string) {
  const source = ts.createSourceFile(name, readFileSync(join(PAGE, name), 'utf8'), ts.ScriptTarget.Latest, true)
  const words: string[] = []
  const bare: string[] = []
  const visit = (node: ts.Node): void => {
    if (isHtml(node)) {
      words.push(...wordsOf(node).filter(hasWords))
      bare.push(...shownIn(node).flatMap(bareIn))
    }
    const isTranslated = ts.isCallExpression(node) && /^((rich\.)?t|notify|say)$/.test(node.expression.getText())
    const [first] = isTranslated ? node.arguments : []
    if (first) {
      words.push(...literalsIn(first))
      bare.push(...filledIn(first))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return { words, bare: bare.map((text) => `${name}: ${text}`) }
}

/** The entries of a file of words. */
function fileOf(language: string, name = 'words'): Map<string, string> {
  const text = readFileSync(join(PAGE, `${name}-${language}.ts`), 'utf8')
  const source = ts.createSourceFile('words.ts', text, ts.ScriptTarget.Latest, true)
  const found = new Map<string, string>()
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAssignment(node) && ts.isStringLiteralLike(node.initializer))
      found.set((node.name as ts.StringLiteral | ts.Identifier).text, node.initializer.text)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

const LANGUAGES = ['de', 'zh']
const sources = readdirSync(PAGE).filter((name) => name.endsWith('.ts') && !ENGLISH.test(name))

void t.test(
  'each word of the page has its translation in every language, with the same places to fill in',
  async (t) => {
    const found = sources.map(read)
    const words = [...new Set(found.flatMap((one) => one.words))]
    t.ok(words.length > 200, `${words.length} of them`)
    t.same(
      found.flatMap((one) => one.bare),
      [],
      'no word is written past the translation'
    )
    const holes = (text: string | undefined) => text?.match(/\{\}/g)?.length ?? 0
    for (const language of LANGUAGES) {
      const file = fileOf(language)
      t.same(
        words.filter((one) => !file.has(one)),
        [],
        language
      )
      t.same(
        [...file].filter(([english, text]) => text === '' || holes(english) !== holes(text)),
        [],
        `${language}: what is filled in`
      )
      const sentences = fileOf(language, 'sentences')
      t.same([...sentences.keys()], [...fileOf('de', 'sentences').keys()], `${language}: what the server says`)
      t.same(
        [...sentences].filter(([english, text]) => text === '' || holes(english) !== holes(text)),
        [],
        `${language}: what it names`
      )
    }
  }
)

/** Every text in brackets: what is shown without them has not passed the translation. */
const BRACKETS = "export const WORDS = new Proxy({}, { get: (_, english) => '⟦' + String(english) + '⟧' })"

/** Texts and names on the page outside of brackets, but for what people and agents have written, names, and units: in the page. */
const BARE = `(() => {
  const OTHERS = 'script, style, noscript, pre, code, kbd, [lang]:not(html)'
  const KNOWN = /\\S+@example\\.com|Colloquy|\\bada\\b|\\b(ms|min|[KMG]B|PM|AM)\\b|\\S+\\.(txt|csv|md)\\b|scripted|\\bnode\\b|\\bjs\\b|\\w+:\\w+|127\\S+/g
  const found = new Set()
  const look = (text, element) => {
    let rest = text ?? ''
    while (/⟦[^⟦⟧]*⟧/.test(rest)) rest = rest.replace(/⟦[^⟦⟧]*⟧/g, '')
    if (/[A-Za-z]{2}/.test(rest.replace(KNOWN, ''))) found.add(element.tagName.toLowerCase() + '.' + element.className + ': ' + text.trim())
  }
  for (const element of document.body.querySelectorAll('*')) {
    if (element.closest(OTHERS)) continue
    for (const name of ['aria-label', 'title', 'placeholder', 'alt']) look(element.getAttribute(name), element)
    for (const node of element.childNodes) if (node.nodeType === 3) look(node.data, element)
  }
  look(document.querySelector('.spoken')?.textContent, document.querySelector('.spoken') ?? document.body)
  return [...found]
})()`

/** The words of buttons of few signs that stand in several lines: in the page. */
const BROKEN = `[...document.querySelectorAll('main button')]
  .filter((one) => {
    const range = document.createRange()
    range.selectNodeContents(one)
    const tops = [...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top))
    return one.innerText.trim().length < 6 && Math.max(...tops) - Math.min(...tops) > 10
  })
  .map(({ innerText }) => innerText)`

/** A visitor whose language has every text in brackets. */
async function visitInBrackets(t: Test, url: string, person?: Person): Promise<Visitor> {
  const visitor = await visit(t, url, {
    ...(person && { person }),
    context: { locale: 'de-DE', reducedMotion: 'reduce' }
  })
  const files = { words: BRACKETS, sentences: 'export const SENTENCES = {}' }
  for (const [name, body] of Object.entries(files))
    await visitor.page.route(`**/${name}-de.js`, (route) => route.fulfill({ contentType: 'text/javascript', body }))
  return visitor
}

browserTest('in another language no word of any view is shown that has not passed the translation', async (t) => {
  const agent = new ScriptedAgent()
  const site = await openSite(t, { agent, config: { sharing: 'public', console: { starters: ['1'] } } })
  const person = await account(site.url, 'ada@example.com')
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  const seen: Record<string, string[]> = {}
  const look = async ({ page }: Visitor, view: string) => {
    const bare = await page.evaluate<string[]>(BARE)
    if (bare.length > 0) seen[view] = bare
  }
  const guest = await visitInBrackets(t, site.url)
  guest.expect(/status of 4\d\d/)
  await guest.open()
  await guest.page.getByRole('heading').first().waitFor()
  await look(guest, 'the door')
  await guest.page.locator('.other .link').click()
  await look(guest, 'a new account')

  const visitor = await visitInBrackets(t, site.url, person)
  visitor.expect(/net::ERR_|status of 4\d\d/)
  const { page } = visitor
  await person.post('/api/memory/facts', { content: '8', category: 'preference' })
  await person.post('/api/v1/auth/tokens', { name: '7', scopes: ['runs:read'] })
  await visitor.open()
  await page.locator('.welcome').waitFor()
  await look(visitor, 'a new conversation')
  await visitor.say('1')
  const stageOf = async (n: number) => {
    await until(() => agent.started.length > n, 'the run')
    return agent.stage({ run_id: agent.started[n]! })
  }
  const first = await stageOf(0)
  const call = aCall('one', '1', { 1: '1' })
  first.think('1')
  first.callPiece({ index: 0, id: 'one', name: '1', args: '{"1":"1"}' }, 'm')
  await page.locator('.fold.call').waitFor()
  await look(visitor, 'a call under way')
  first.reply('', { id: 'm', tool_calls: [call] })
  first.use(call, '1')
  first.say('1\n\n```js\n1\n```\n', 'n')
  await visitor.say('2')
  await page.locator('.queue li').waitFor()
  await look(visitor, 'a queue')
  await page.locator('.queue li button').last().click()
  await page.locator('.queue').waitFor({ state: 'detached' })
  first.reply('1\n\n```js\n1\n```\n\n- [ ] 1', { id: 'n' })
  first.finish()
  await page.locator('.message.ai .actions').last().waitFor()
  for (const fold of await page.locator('.fold > summary').all()) await fold.click()
  await page.locator('.fold .took').waitFor()
  await page.locator('.actions [aria-pressed]').first().click()
  await page.locator('.why').waitFor()
  await look(visitor, 'an answer')
  await page.locator('.edits').first().click()
  await look(visitor, 'an edit')
  await page.keyboard.press('Escape')
  await visitor.say('3')
  const second = await stageOf(1)
  second.say('77', 'h')
  await visitor.hasWords('77')
  await page.keyboard.press('Escape')
  await page.locator('.cut').waitFor()
  await look(visitor, 'a stopped answer')
  await visitor.say('4')
  ;(await stageOf(2)).fail(new Error('1'))
  await page.locator('.failure').waitFor()
  await look(visitor, 'a failure')

  const asks = async (value: Json) => {
    const n = agent.started.length
    await visitor.open()
    await page.locator('.welcome').waitFor()
    await visitor.say('5')
    const stage = await stageOf(n)
    stage.sink.record({ type: 'interrupt', interrupt: { id: `q${n}`, value } })
    stage.sink.record({ type: 'step', node: 'agent' })
    stage.finish()
    await page.locator('.question').waitFor()
  }
  await asks({ question: '1', options: ['1'] })
  await until(async () => (await page.locator('.spoken').innerText()) !== '', 'it is spoken')
  await look(visitor, 'a question')
  const args = { 1: '1', 2: 2 }
  await asks({
    action_requests: [
      { name: '1', args },
      { name: '2', args }
    ]
  })
  await look(visitor, 'cards')
  const card = page.locator('.review-card')
  await card.first().locator('.options button').nth(1).click()
  await card.first().locator('textarea').nth(1).fill('x')
  await page.locator('.problem').waitFor()
  await card.last().locator('.options button').last().click()
  await look(visitor, 'a card that is edited, one that is rejected')
  await card.last().locator('.options .primary').click()
  await look(visitor, 'a decision')
  await asks({ 1: 1 })
  await look(visitor, 'another question')
  await visitor.open('#/inbox')
  await page.locator('.question').nth(2).waitFor()
  await look(visitor, 'the inbox')

  await page.locator('.thread .more').first().click()
  await page.locator('[role=menuitem]').nth(5).waitFor()
  await look(visitor, 'a menu')
  await page.locator('[role=menuitem]').nth(1).click()
  await page.locator('dialog').waitFor()
  await look(visitor, 'another title')
  await page.keyboard.press('Escape')
  await page.locator('.thread .more').first().click()
  await page.locator('[role=menuitem]').nth(3).click()
  await page.locator('dialog footer .primary').click()
  await page.locator('dialog .tokens li').waitFor()
  await page.locator('dialog .tokens li button').click()
  await look(visitor, 'a link')
  const link = await page.locator('dialog .secret input').inputValue()
  await page.keyboard.press('Escape')
  await page.locator('.thread .more').first().click()
  await page.locator('[role=menuitem]').last().click()
  await page.locator('dialog').waitFor()
  await look(visitor, 'a deletion')
  await page.locator('dialog footer button').last().click()
  await page.locator('.toast').first().waitFor()
  await look(visitor, 'what can be undone')
  await page.locator('.toast button').first().click()

  await page.keyboard.press('Control+k')
  await page.locator('#palette').waitFor()
  await look(visitor, 'the palette')
  await page.locator('#palette').fill('zzz')
  await page.locator('dialog .hint').waitFor()
  await page.keyboard.press('Escape')
  await page.locator('.foot button.entry').click()
  await page.locator('dialog .tokens li').nth(2).waitFor()
  await page.locator('dialog form.stack > button').click()
  await page.locator('dialog .problem').waitFor()
  await page.locator('dialog [type=checkbox][name=scope]').first().check()
  await page.locator('dialog form.stack > button').click()
  await page.locator('dialog .secret').waitFor()
  await look(visitor, 'the account')
  await page
    .locator('dialog input[type=file]')
    .setInputFiles({ name: '1.csv', mimeType: 'application/json', buffer: Buffer.from('{}') })
  await page.locator('.toast').first().waitFor()
  await look(visitor, 'an import that fails')
  await page.keyboard.press('Escape')
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('?')
  await page.locator('dialog').waitFor()
  await look(visitor, 'the keys')
  await page.keyboard.press('Escape')
  await page.locator('#search').fill('1')
  await page.locator('.found').first().waitFor()
  await look(visitor, 'what was found')
  await page.locator('#search').fill('')
  await visitor.open('#/overview')
  await page.locator('.welcome').waitFor()
  await look(visitor, 'no overview')
  await visitor.open('#/t/none')
  await page.locator('.welcome').waitFor()
  await look(visitor, 'no conversation')
  await guest.page.goto(link)
  await guest.page.reload()
  await guest.page.locator('.shared').waitFor()
  await look(guest, 'a link that is opened')
  t.same(seen, {})
})

/** Of all that comes until the composer takes keys, compressed, in bytes. */
const WEIGHT_MAX = 110 * 1024

browserTest(
  'the page in German is as light and as clean as in English, and is switched to Chinese and back',
  async (t) => {
    const site = await openSite(t)
    const visitor = await visit(t, site.url, {
      person: await account(site.url, 'ada@example.com'),
      context: { locale: 'de-DE', reducedMotion: 'reduce' }
    })
    const { page } = visitor
    await visitor.open()
    await page.getByLabel('Nachricht', { exact: true }).fill('ein Entwurf')
    const worker = await fetch(`${site.url}/sw.js`, { headers: { 'accept-encoding': 'br' } })
    const loaded = await page.evaluate(`performance
    .getEntriesByType('resource')
    .concat(performance.getEntriesByType('navigation'))
    .filter(({ name }) => !name.includes('/api/'))
    .map(({ encodedBodySize }) => encodedBodySize)`)
    const bytes = listIn(loaded).reduce<number>(
      (sum, size) => sum + Number(size),
      Number(worker.headers.get('content-length'))
    )
    t.comment(`${(bytes / 1024).toFixed(1)} KB in German`)
    t.ok(bytes < WEIGHT_MAX, `${bytes} bytes`)
    t.equal(await page.evaluate('document.documentElement.lang'), 'de')
    await isAccessible(t, visitor, 'a new conversation in German')
    await visitor.say('/demo rate=0 deltas=3')
    await page.getByRole('button', { name: 'Gute Antwort', exact: true }).waitFor()
    await isAccessible(t, visitor, 'a conversation in German')
    await page.fill('#composer', 'ein Entwurf')
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByRole('heading', { name: 'Aussehen' }).waitFor()
    await isAccessible(t, visitor, 'the account in German')
    visitor.expect(/status of 400/)
    await page.getByLabel('Bisheriges').fill('not-the-password')
    await page.getByLabel('Neues').fill('another-horse-43')
    await page.getByRole('button', { name: 'Ändern' }).click()
    await page.getByRole('alert').getByText('Das bisherige Passwort ist falsch').waitFor()
    await page.getByRole('button', { name: '中文' }).click()
    await page.getByRole('button', { name: '好的回答', exact: true }).waitFor()
    t.equal(await page.evaluate('document.documentElement.lang'), 'zh')
    t.equal(await page.inputValue('#composer'), 'ein Entwurf', 'what was being written stays')
    const { width, height } = page.viewportSize()!
    await page.setViewportSize({ width: 375, height })
    await page.locator('.actions [aria-pressed]').first().click()
    await page.locator('.why button').waitFor()
    t.same(await page.evaluate<string[]>(BROKEN), [], 'no sign stands below the other')
    await page.setViewportSize({ width, height })
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByRole('button', { name: 'English', exact: true }).click()
    await page.getByRole('button', { name: 'Good answer', exact: true }).waitFor()
  }
)
