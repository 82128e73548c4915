// The table of options in the operator's document is what the options say.
import t from 'tap'
import { typesOf } from '../../lib/config/keys.ts'
import { Options } from '../../lib/config/options.ts'
import { allOptions, reloadable, tableOfOptions, writtenTable } from '../fixtures/options-table.ts'

t.test('the table of options is made of them: `node dist/test/fixtures/options-table.js` writes it anew', (t) => {
  t.equal(writtenTable(), tableOfOptions())
  t.end()
})

t.test('it has every option that a file or a variable can set', (t) => {
  const listed = new Set(allOptions().map(({ path }) => path))
  t.strictSame(
    [...typesOf(Options).keys()].filter((path) => !listed.has(path)),
    []
  )
  t.end()
})

t.test('each option says what it is, or what goes wrong without it', (t) => {
  t.strictSame(
    allOptions()
      .filter(({ words }) => words === '')
      .map(({ path }) => path),
    []
  )
  t.end()
})

t.test('what counts on a reload is an option, or a section', (t) => {
  const paths = allOptions().map(({ path }) => path)
  const isKnown = (name: string) => paths.some((path) => path === name || path.startsWith(`${name}.`))
  t.strictSame(
    [...reloadable()].filter((name) => !isKnown(name)),
    []
  )
  t.ok(
    reloadable().has('models') && reloadable().has('runs.active_per_user') && reloadable().has('server.trusted_proxies')
  )
  t.end()
})
