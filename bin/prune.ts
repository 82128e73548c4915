// colloquy prune: takes what was deleted out of the database file, at once.
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, parse, UsageError } from './command.ts'

export const prune: Command = {
  name: 'prune',
  usage: '--now [--config FILE] [--home FOLDER]',
  summary:
    'Rewrites the SQLite file without what was deleted, and empties its write-ahead log; also beside a running server.',
  options: [['--now', 'rewrites it: writers wait for as long as that takes'], ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, now: { type: 'boolean' } })
    if (!values.now)
      throw new UsageError('--now is missing: a server empties the log by itself every quarter of an hour')
    const { pruneDatabase } = await import('../lib/operator/operator.ts')
    const { before, after } = await pruneDatabase(configOf(values))
    process.stdout.write(`The database had ${before} bytes, and has ${after}: nothing deleted is in it\n`)
  }
}
