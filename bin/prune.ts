// colloquy prune: takes what was deleted out of the database file, or says what is older than it is to be kept.
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, parse, print, UsageError } from './command.ts'

export const pruneCommand: Command = {
  name: 'prune',
  usage: '--now | --dry-run [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Rewrites the SQLite file without what was deleted, and empties its write-ahead log; also beside a running server, which deletes by itself what is older than `retention` says. Example: colloquy prune --dry-run --json',
  options: [
    ['--now', 'rewrites it: writers wait for as long as that takes'],
    [
      '--dry-run',
      'only counts what the server will delete by `retention`: a line each with its number, and since when it is too old'
    ],
    ['--json', 'the same as one JSON object'],
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const flag = { type: 'boolean', default: false } as const
    const { values } = parse(args, { ...INSTALLATION, now: flag, 'dry-run': flag, json: flag })
    if (values.now === values['dry-run'])
      throw new UsageError('One of --now and --dry-run: a server empties the log by itself every quarter of an hour')
    const { countOld, OPERATOR, prune } = await import('../lib/operator/operator.ts')
    if (values['dry-run']) {
      const old = await countOld(configOf(values))
      const lines = Object.entries(old).map(
        ([of, { count, before }]) => `${of}\t${count}\t${before ?? 'kept for ever'}\n`
      )
      process.stdout.write(values.json ? `${JSON.stringify(old)}\n` : lines.join(''))
      return
    }
    const done = await prune(configOf(values), OPERATOR)
    const text = `The database had ${done.bytes_before} bytes, and has ${done.bytes_after}: nothing deleted is in it`
    print(values.json, text, done)
  }
}
