// colloquy hold add, list, remove: what is not to be deleted, and why; also beside a running server.
import type { Config } from '../lib/config/config.ts'
import type { Hold, HoldKind } from '../lib/base/accounts.ts'
import {
  allOf,
  type Command,
  configOf,
  INSTALLATION,
  INSTALLATION_HELP,
  JSON_HELP,
  JSON_OPTION,
  parse,
  print,
  UsageError
} from './command.ts'

const ABOUT = { user: { type: 'string' }, thread: { type: 'string' } } as const
const ABOUT_HELP = [
  ['--user USER', 'e-mail address, id, or name of a service account'],
  ['--thread ID', 'id of a thread']
] as const

export const addHold: Command = {
  name: 'hold add',
  usage: '(--user USER | --thread ID) --reason TEXT [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Holds a user or a thread: nothing of it is deleted, by its owner, an administrator or by age, until all its holds are lifted. Prints the id of the hold. Example: colloquy hold add --user ann@example.com --reason "Case 42"',
  options: [
    ...ABOUT_HELP,
    ['--reason TEXT', 'why, for the audit and whoever lifts it'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...ABOUT, reason: { type: 'string' } })
    const config = configOf(values)
    const reason = await reasonOf(values.reason)
    if (reason === null) throw new UsageError('--reason is needed')
    const target = await targetOf(config, values)
    if (target === null) throw new UsageError('One of --user and --thread is needed')
    const { holdView, withHolds } = await import('../lib/operator/holds.ts')
    const hold = await withHolds(config, (holds, by) => holds.add(target.kind, target.id, reason, by))
    print(values.json, hold.hold_id, holdView(hold))
  }
}

export const listHolds: Command = {
  name: 'hold list',
  usage: '[--user USER | --thread ID] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Holds, newest first, a line each: id, user or thread, its id, since when, by whom, why. Example: colloquy hold list --user ann@example.com',
  options: [...ABOUT_HELP, JSON_HELP, ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...ABOUT })
    const config = configOf(values)
    const target = await targetOf(config, values)
    const { holdView, withHolds } = await import('../lib/operator/holds.ts')
    await withHolds(config, async (holds) => {
      const found = allOf((page) => holds.list({ ...(target && { target: target.id }), ...page }))
      for await (const hold of found) print(values.json, lineOf(hold), holdView(hold))
    })
  }
}

export const removeHold: Command = {
  name: 'hold remove',
  usage: 'HOLD [--reason TEXT] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Lifts a hold; others of the same user or thread stay. Example: colloquy hold remove 6f1c0f3e-0000-4000-8000-000000000000 --reason "Case 42 is closed"',
  options: [
    ['HOLD', 'its id, as colloquy hold list has it'],
    ['--reason TEXT', 'why, for the audit'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION, reason: { type: 'string' } }, true)
    const [id, ...more] = positionals
    if (id === undefined || more.length > 0) throw new UsageError('One HOLD is needed')
    const reason = await reasonOf(values.reason)
    const { holdView, withHolds } = await import('../lib/operator/holds.ts')
    const hold = await withHolds(configOf(values), (holds, by) => holds.remove(id, reason, by))
    print(values.json, `${hold.kind} ${hold.target} has one hold less`, holdView(hold))
  }
}

function lineOf({ hold_id, kind, target, created_at, created_by, reason }: Hold): string {
  return [hold_id, kind, target, created_at, created_by, reason.replaceAll(/\s+/g, ' ')].join('\t')
}

/** null: none is given. @throws UsageError when it is too long */
async function reasonOf(given: string | undefined): Promise<string | null> {
  const reason = given?.trim() ?? ''
  const { REASON_MAX } = await import('../lib/operator/holds.ts')
  if (reason.length > REASON_MAX) throw new UsageError(`--reason has at most ${REASON_MAX} characters`)
  return reason === '' ? null : reason
}

/** null: none is named. @throws UsageError for two */
async function targetOf(
  config: Config,
  { user, thread }: { readonly user?: string | undefined; readonly thread?: string | undefined }
): Promise<{ readonly kind: HoldKind; readonly id: string } | null> {
  if (user !== undefined && thread !== undefined) throw new UsageError('One of --user and --thread, not both')
  if (thread !== undefined) return { kind: 'thread', id: thread }
  if (user === undefined) return null
  const { withPeople } = await import('../lib/operator/people.ts')
  return { kind: 'user', id: (await withPeople(config, (people) => people.find(user))).id }
}
