// colloquy audit: who did what to whom, and from where.
import { timestamp } from '../lib/base/types.ts'
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

const LIMIT_MAX = 100_000

export const audit: Command = {
  name: 'audit',
  usage: '[--user USER] [--action ACTION] [--since TIME] [--limit NUMBER] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'The audit, newest first, a line each: time, action, who, whom, address, request id, details. Example: colloquy audit --action sign_in_failed --since 2026-01-31',
  options: [
    ['--user USER', 'what this account did, and what was done to it: address or id'],
    ['--action ACTION', 'sign_in, sign_in_failed, lockout, role, password, token_created...'],
    ['--since TIME', 'as 2026-01-31 or 2026-01-31T12:00:00Z'],
    ['--limit NUMBER', 'default 100'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values } = parse(args, {
      ...INSTALLATION,
      user: { type: 'string' },
      action: { type: 'string' },
      since: { type: 'string' },
      limit: { type: 'string', default: '100' },
      json: { type: 'boolean', default: false }
    })
    const limit = Number(values.limit)
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
      throw new UsageError(`--limit must be a whole number from 1 to ${LIMIT_MAX}`)
    const since = values.since === undefined ? undefined : Date.parse(values.since)
    if (Number.isNaN(since)) throw new UsageError('--since must be a time, as 2026-01-31')
    const config = configOf(values)
    const { AUDIT_ACTIONS, listAudit, withPeople } = await import('../lib/operator/people.ts')
    const action = AUDIT_ACTIONS.find((one) => one === values.action)
    if (values.action !== undefined && action === undefined)
      throw new UsageError(`--action must be one of ${AUDIT_ACTIONS.join(', ')}`)
    const { user } = values
    // Of somebody who is gone only the id is known.
    const about = user && (user.includes('@') ? (await withPeople(config, (people) => people.find(user))).id : user)
    const search = {
      limit,
      ...(action !== undefined && { action }),
      ...(since !== undefined && { since: timestamp(since) })
    }
    const entries = await listAudit(config, search, about ?? null)
    for (const entry of entries) {
      const { at, action, actor, target, address, request_id, details } = entry
      const line = [at, action, actor, target ?? '-', address ?? '-', request_id ?? '-', JSON.stringify(details)]
      print(values.json, line.join('\t'), entry)
    }
  }
}
