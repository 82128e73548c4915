// The page in other languages: no word of its templates is without a translation, and it is as light and as clean as in English.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { listIn, openSite } from '../fixtures/gateway.ts'

const PAGE = fileURLToPath(new URL('../../../lib/console/', import.meta.url))
/** English alone: the API's reference, and what operators and developers look into. */
const ENGLISH = /^(docs|inspector|replay|recording|overview|installation|people|usage|figures|worker|words)/
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
    const isTranslated = ts.isCallExpression(node) && /^(t|notify|say)$/.test(node.expression.getText())
    const [first] = isTranslated ? node.arguments : []
    if (first && ts.isStringLiteralLike(first) && hasWords(first.text)) words.push(first.text)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return { words, bare: bare.map((text) => `${name}: ${text}`) }
}

/** The entries of a file of words. */
function fileOf(language: string): Map<string, string> {
  const text = readFileSync(join(PAGE, `words-${language}.ts`), 'utf8')
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
    }
  }
)

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
    await page.getByRole('button', { name: '中文' }).click()
    await page.getByRole('button', { name: '好的回答', exact: true }).waitFor()
    t.equal(await page.evaluate('document.documentElement.lang'), 'zh')
    t.equal(await page.inputValue('#composer'), 'ein Entwurf', 'what was being written stays')
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByRole('button', { name: 'English', exact: true }).click()
    await page.getByRole('button', { name: 'Good answer', exact: true }).waitFor()
  }
)
