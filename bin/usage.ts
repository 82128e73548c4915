// colloquy usage: what runs have taken, by day, user, agent and model.
import {
  type Command,
  configOf,
  INSTALLATION,
  INSTALLATION_HELP,
  JSON_HELP,
  parse,
  print,
  UsageError
} from './command.ts'

export const showUsage: Command = {
  name: 'usage',
  usage:
    '[--since DAY] [--until DAY] [--by KEYS] [--user USER] [--agent AGENT] [--model MODEL] [--csv | --json] [--config FILE] [--home FOLDER]',
  summary:
    'Runs, tokens and money, a line each, newest day first: what it is told apart by, then runs, input, output and all tokens, and money. Example: colloquy usage --by user,model --since 2026-01-01',
  options: [
    ['--since DAY', 'the first day, as 2026-01-31, in UTC; default 29 days before the last'],
    ['--until DAY', 'the last day; default today'],
    ['--by KEYS', 'some of day,user,agent,model; default all'],
    ['--user USER', 'of this account only: address, id, or name of a service account'],
    ['--agent AGENT', 'of this agent only'],
    ['--model MODEL', 'of this model only'],
    ['--csv', 'prints CSV, with a line of names'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const text = { type: 'string' } as const
    const flag = { type: 'boolean', default: false } as const
    const own = { since: text, until: text, by: text, user: text, agent: text, model: text, csv: flag, json: flag }
    const { values } = parse(args, { ...INSTALLATION, ...own })
    if (values.csv && values.json) throw new UsageError('One of --csv and --json')
    const { isBackwards, isDay, listUsage, usageCsv, usageKeys } = await import('../lib/operator/usage.ts')
    for (const name of ['since', 'until'] as const)
      if (values[name] !== undefined && !isDay(values[name]))
        throw new UsageError(`--${name} must be a day, as 2026-01-31`)
    if (isBackwards(values)) throw new UsageError('--until must not be before --since')
    const by = values.by === undefined ? undefined : usageKeys(values.by)
    if (by === null) throw new UsageError('--by must be a list of day, user, agent and model, each once')
    const { since, until, agent, model } = values
    const report = await listUsage(configOf(values), { since, until, by, agent, model }, values.user ?? null)
    if (values.csv) return void process.stdout.write(usageCsv(report))
    for (const row of report.rows) {
      const { day, user_id, email, agent, model, runs, input_tokens, output_tokens, total_tokens, money } = row
      const keys = { day, user: email ?? user_id, agent, model }
      const sums = [runs, input_tokens, output_tokens, total_tokens, `${money} ${report.currency}`]
      print(values.json, [...report.by.map((key) => keys[key] || '-'), ...sums].join('\t'), row)
    }
  }
}
