// What others build on: names of the package's entrances, and the tables of its databases. A change fails here until the list is
// changed too, and it is said in CHANGELOG.md.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { migrate } from '../../lib/store/sqlite/schema.ts'
import { migratedDatabase } from '../fixtures/postgres.ts'

const LIST = 'test/operator/public-names.txt'

/** Sources of what the package lets others import. */
function entrances(): string[] {
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as { exports: Record<string, { types: string }> }
  return Object.values(exports).map(({ types }) => types.replace(/^\.\/dist\/(.*)\.d\.ts$/, '$1.ts'))
}

/** Names that a module exports, with those of modules that it passes on whole. */
function exportsOf(file: string): string[] {
  const source = readFileSync(file, 'utf8')
  const lists = [...source.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names]) => names!.split(','))
  const listed = lists
    .map((name) =>
      name
        .trim()
        .replace(/^type /, '')
        .replace(/^.* as /, '')
    )
    .filter(Boolean)
  const declared = source.matchAll(
    /^export (?:declare |async |abstract )*(?:class|function\*?|const|let|interface|type|enum) (\w+)/gm
  )
  const passedOn = [...source.matchAll(/^export (?:type )?\* from '([^']+)'/gm)]
  return [
    ...listed,
    ...[...declared].map(([, name]) => name!),
    ...passedOn.flatMap(([, from]) => exportsOf(join(dirname(file), from!)))
  ]
}

/** `table column, column`, as migrations leave them. */
function tablesOf(kind: string, rows: readonly { readonly table: string; readonly column: string }[]): string[] {
  const tables = new Map<string, string[]>()
  for (const { table, column } of rows) tables.set(table, [...(tables.get(table) ?? []), column])
  return [...tables].map(([table, columns]) => `${kind} ${table}: ${columns.sort().join(', ')}`)
}

function sqliteTables(): string[] {
  const db = new Sqlite(':memory:')
  migrate(db)
  const sql = `SELECT m.name AS "table", c.name AS "column" FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c
    WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`
  const rows = db.prepare<[], { table: string; column: string }>(sql).all()
  db.close()
  return tablesOf('sqlite', rows)
}

async function postgresTables(): Promise<string[]> {
  const database = await migratedDatabase()
  const connection = await PgConnection.open(database.url)
  const rows = await connection.rows<{ table: string; column: string }>(
    `SELECT table_name AS "table", column_name AS "column" FROM information_schema.columns WHERE table_schema = 'public'`
  )
  await connection.close()
  await database.remove()
  return tablesOf('postgres', rows)
}

t.test('names of entrances, and tables of both databases, are those of the list', async (t) => {
  const names = entrances().flatMap((file) => [...new Set(exportsOf(file))].map((name) => `${file} ${name}`))
  const found = [...names, ...sqliteTables(), ...(await postgresTables())].sort()
  const listed = readFileSync(LIST, 'utf8').trim().split('\n')
  t.strictSame(found, listed, `change ${LIST}, and say in CHANGELOG.md what whoever uses it does`)
})
