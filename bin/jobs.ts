// colloquy jobs list, retry, drop: what is to be done later, and what has failed for good; also beside a running server.
import { JOB_KINDS } from '../lib/base/types.ts'
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

export const listJobs: Command = {
  name: 'jobs list',
  usage: '[--dead] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Jobs, a line each: kind, key, when it is due, attempts, user, thread, its last error. Earliest first, dead ones last. Example: colloquy jobs list --dead',
  options: [['--dead', 'only those that have failed as often as they may'], JSON_HELP, ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, ...JSON_OPTION, dead: FLAG })
    const { listJobs } = await import('../lib/operator/operator.ts')
    for (const job of await listJobs(configOf(values), values.dead)) {
      const { kind, key, due_at, attempts, user_id, thread_id, last_error } = job
      const line = [kind, key, due_at ?? 'dead', attempts, user_id ?? '-', thread_id ?? '-', last_error ?? '']
      const json = { kind, key, due_at, attempts, user_id, thread_id, last_error }
      print(values.json, line.join('\t').replaceAll('\n', ' '), json)
    }
  }
}

export const retryJob: Command = changing('retry', 'Tries a job now, with all its attempts.')
export const dropJob: Command = changing('drop', 'Deletes a job: it will never be done.')

function changing(how: 'retry' | 'drop', summary: string): Command {
  return {
    name: `jobs ${how}`,
    usage: 'KIND KEY [--json] [--config FILE] [--home FOLDER]',
    summary: `${summary} Example: colloquy jobs ${how} webhook 6f1c0f3e-0000-4000-8000-000000000000`,
    options: [['KIND KEY', 'as colloquy jobs list has them'], JSON_HELP, ...INSTALLATION_HELP],
    async run(args) {
      const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION }, true)
      const [kind, key, ...more] = positionals
      const known = JOB_KINDS.find((one) => one === kind)
      if (!known || key === undefined || more.length > 0)
        throw new UsageError(
          `One KIND (${JOB_KINDS.join(', ')}) and one KEY are needed, as colloquy jobs list has them`
        )
      const { changeJob } = await import('../lib/operator/operator.ts')
      await changeJob(configOf(values), known, key, how)
      const text = how === 'retry' ? `${known} ${key} is due now` : `${known} ${key} is gone`
      print(values.json, text, { kind: known, key, is: how === 'retry' ? 'due' : 'gone' })
    }
  }
}
