// colloquy jobs list, retry, drop: what is to be done later, and what has failed for good; also beside a running server.
import type { JobKind } from '../lib/base/types.ts'
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, parse, UsageError } from './command.ts'

const KINDS: readonly JobKind[] = ['webhook', 'push', 'turn', 'removal', 'departure']

export const listJobs: Command = {
  name: 'jobs list',
  usage: '[--dead] [--config FILE] [--home FOLDER]',
  summary:
    'Jobs, a line each: kind, key, when it is due, attempts, user, thread, its last error. Earliest first, dead ones last.',
  options: [['--dead', 'only those that have failed as often as they may'], ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, dead: { type: 'boolean', default: false } })
    const { listJobs } = await import('../lib/operator/operator.ts')
    for (const job of await listJobs(configOf(values), values.dead)) {
      const { kind, key, due_at, attempts, user_id, thread_id, last_error } = job
      const line = [kind, key, due_at ?? 'dead', attempts, user_id ?? '-', thread_id ?? '-', last_error ?? '']
      process.stdout.write(`${line.join('\t').replaceAll('\n', ' ')}\n`)
    }
  }
}

export const retryJob: Command = changing('retry', 'Tries a job now, with all its attempts.')
export const dropJob: Command = changing('drop', 'Deletes a job: it will never be done.')

function changing(how: 'retry' | 'drop', summary: string): Command {
  return {
    name: `jobs ${how}`,
    usage: 'KIND KEY [--config FILE] [--home FOLDER]',
    summary,
    options: INSTALLATION_HELP,
    async run(args) {
      const { values, positionals } = parse(args, INSTALLATION, true)
      const [kind, key, ...more] = positionals
      const known = KINDS.find((one) => one === kind)
      if (!known || key === undefined || more.length > 0)
        throw new UsageError(`One KIND (${KINDS.join(', ')}) and one KEY are needed, as colloquy jobs list has them`)
      const { changeJob } = await import('../lib/operator/operator.ts')
      await changeJob(configOf(values), known, key, how)
      process.stdout.write(how === 'retry' ? `${known} ${key} is due now\n` : `${known} ${key} is gone\n`)
    }
  }
}
