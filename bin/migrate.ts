// colloquy migrate: the schema of the database, changed by hand: before a new version is started, and after the last old one has stopped.
import {
  type Command,
  configOf,
  FLAG,
  INSTALLATION,
  INSTALLATION_HELP,
  JSON_HELP,
  JSON_OPTION,
  parse,
  print,
  UsageError
} from './command.ts'

const MIB = 2 ** 20

export const migrate: Command = {
  name: 'migrate',
  usage: '--plan | --apply | --contract [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Changes the schema of the database to that of this version, which the first start of a new version does as well; progress is on stderr. On PostgreSQL also beside servers of the version before, unless the plan says stop. A command that was killed goes on when it is repeated. Ends with 0 when it is done or there is nothing to do, with 1 when it is refused, and the database is as usable as before. Example: colloquy migrate --plan && colloquy migrate --apply',
  options: [
    ['--plan', 'only says what would be done, a line a step, and which processes are using the database'],
    ['--apply', 'does what this version needs: tables and columns are added, and filled in batches'],
    ['--contract', 'removes what only older versions need; refused while a process of one of them lives'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, ...JSON_OPTION, plan: FLAG, apply: FLAG, contract: FLAG })
    if ([values.plan, values.apply, values.contract].filter(Boolean).length !== 1)
      throw new UsageError('One of --plan, --apply and --contract')
    const { applyMigration, contractMigration, planMigration, progressText } = await import(
      '../lib/operator/migrate.ts'
    )
    const config = configOf(values)
    const report = (progress: Parameters<typeof progressText>[0]) =>
      void process.stderr.write(`${values.json ? JSON.stringify(progress) : progressText(progress)}\n`)
    if (values.plan) {
      const plan = await planMigration(config)
      return print(values.json, planText(plan), plan)
    }
    if (values.apply) {
      const done = await applyMigration(config, report)
      const text = done
        ? `The database was brought from schema ${done.from} to ${done.to} in ${done.duration_ms} ms${done.backup ? `; as it was: ${done.backup}` : ''}`
        : 'The database has the schema of this version'
      return print(values.json, text, { migrated: done })
    }
    const steps = await contractMigration(config, report)
    const text =
      steps.length === 0 ? 'There is nothing to do' : `What only older versions need is gone: steps ${steps.join(', ')}`
    print(values.json, text, { contracted: steps })
  }
}

interface Plan {
  readonly backend: string
  readonly schema: number
  readonly program: number
  readonly min_reader: number
  readonly min_writer: number
  readonly bytes: number
  readonly steps: readonly { version: number; phase: string; stop: boolean; rows: number | null }[]
  readonly processes: readonly { schema: number; count: number }[]
}

function planText({ backend, schema, program, min_reader, min_writer, bytes, steps, processes }: Plan): string {
  if (schema === 0) return 'There is no database yet: --apply or the first start makes it'
  const able = `programs from schema ${min_writer} on may write it, from ${min_reader} on read it`
  const head = `${backend}, ${Math.round(bytes / MIB)} MiB, schema ${schema} (this program: ${program}); ${able}`
  const users = processes.map((one) => `in use by ${one.count} of schema ${one.schema || 'unknown'}`)
  const lines = steps.map(({ version, phase, stop, rows }) => {
    const [what, how] = [
      rows === null ? '' : `, about ${rows} rows`,
      stop ? ': older versions must have stopped' : ': older versions may go on'
    ]
    return `step ${version}, ${phase}${what}${how}`
  })
  return [head, ...users, ...(lines.length === 0 ? ['There is nothing to do'] : lines)].join('\n')
}
