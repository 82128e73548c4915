// Which SQLite driver is loaded: the one that fits the Node that runs, of those that npm installs.
import { readFileSync } from 'node:fs'
import t from 'tap'
import { driversFor, Sqlite } from '../../lib/base/sqlite-driver.ts'

t.test('Node 20 takes better-sqlite3 12; 22 and newer take 13, and 12 where only that is installed', async (t) => {
  for (const node of ['20.20.0', '20.20.2']) t.strictSame(driversFor(node), ['better-sqlite3'], node)
  for (const node of ['22.0.0', '22.21.1', '24.11.0', '100.0.0'])
    t.strictSame(driversFor(node), ['better-sqlite3-13', 'better-sqlite3'], node)
})

t.test('both are optional, under the names that are asked for, in the versions that fit', async (t) => {
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
  t.match(JSON.parse(text), {
    optionalDependencies: { 'better-sqlite3': /^\^12\./, 'better-sqlite3-13': /^npm:better-sqlite3@\^13\./ }
  })
})

t.test('the one in use is the first of them that loads here', async (t) => {
  const driverIn = async (name: string): Promise<unknown> => {
    try {
      const { default: driver } = (await import(name)) as { default: typeof Sqlite }
      new driver(':memory:').close()
      return driver
    } catch {
      return null
    }
  }
  let first: unknown = null
  // One that would not be used is not loaded either.
  for (const name of driversFor(process.versions.node)) first ??= await driverIn(name)
  t.equal(Sqlite, first)
})
