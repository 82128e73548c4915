#!/usr/bin/env node
// The command line: one table of commands, their help, and how a failure ends. A command loads what it needs when it runs.
import { messageOf } from '../lib/base/errors.ts'
import { COMMIT, VERSION } from '../lib/base/version.ts'
import { audit } from './audit.ts'
import { backup, move, restore } from './backup.ts'
import { bench } from './bench.ts'
import { showConfig } from './config.ts'
import { type Command, helpOf, misuseOf, UsageError } from './command.ts'
import { demo } from './demo.ts'
import { doctor } from './doctor.ts'
import { addHold, listHolds, removeHold } from './hold.ts'
import { dropJob, listJobs, retryJob } from './jobs.ts'
import { migrate } from './migrate.ts'
import { pruneCommand } from './prune.ts'
import { resetAdmin } from './reset-admin.ts'
import { serve } from './serve.ts'
import { showUsage } from './usage.ts'
import { createToken, listTokens, revokeToken } from './token.ts'
import {
  createUser,
  deleteUser,
  eraseUser,
  exportUser,
  disableUser,
  enableUser,
  inviteUser,
  listUsers,
  setPassword,
  setQuota,
  setRole,
  userSessions
} from './user.ts'

const COMMANDS: readonly Command[] = [
  serve,
  demo,
  resetAdmin,
  pruneCommand,
  createToken,
  listTokens,
  revokeToken,
  listUsers,
  createUser,
  inviteUser,
  disableUser,
  enableUser,
  deleteUser,
  eraseUser,
  exportUser,
  setRole,
  setQuota,
  setPassword,
  userSessions,
  audit,
  backup,
  restore,
  move,
  migrate,
  showUsage,
  showConfig,
  doctor,
  addHold,
  listHolds,
  removeHold,
  listJobs,
  retryJob,
  dropJob,
  bench
]

/** They go on when nobody reads their output any more. */
const SERVERS: ReadonlySet<Command> = new Set([serve, demo])

const HELP = ['--help', '-h']

/** The command that the first words name, and what follows them. */
function commandOf(words: readonly string[]): { command: Command; args: string[] } | null {
  for (const command of COMMANDS) {
    const name = command.name.split(' ')
    if (name.every((word, i) => words[i] === word)) return { command, args: words.slice(name.length) }
  }
  return null
}

/** Of those that begin with `noun`, or of all. */
function usage(noun?: string): string {
  const named = COMMANDS.filter(({ name }) => name.split(' ')[0] === noun)
  const shown = named.length > 0 ? named : COMMANDS
  const width = Math.max(...shown.map(({ name }) => name.length))
  const lines = shown.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`)
  return `colloquy COMMAND [OPTION]...\n\n${lines.join('')}\ncolloquy COMMAND --help tells its options; colloquy --version the version.\n`
}

function unknownCommand(words: readonly string[]): string {
  const isNoun = COMMANDS.some(({ name }) => name.startsWith(`${words[0]} `))
  const name = words.slice(0, isNoun ? 2 : 1).join(' ')
  return isNoun ? `There is no command ${name}\n${usage(words[0])}` : `There is no command ${name}`
}

async function main(words: string[]): Promise<void> {
  const asksHelp = words[0] === 'help' || words.some((word) => HELP.includes(word))
  const found = commandOf(words[0] === 'help' ? words.slice(1) : words)
  // As behind `| head`: there is nobody to say more to, and what was read may be half of it.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (found && SERVERS.has(found.command)) return
    if (error.code === 'EPIPE') process.exit(1)
    fail(error)
  })
  process.stderr.on('error', () => {})
  if (found && asksHelp) return void process.stdout.write(helpOf(found.command))
  if (asksHelp) return void process.stdout.write(usage(words[0] === 'help' ? words[1] : words[0]))
  if (words.includes('--version')) return void process.stdout.write(`${VERSION} (${COMMIT})\n`)
  if (!found) throw new UsageError(words.length === 0 ? 'A command is needed' : unknownCommand(words))
  try {
    await found.command.run(found.args)
  } catch (error) {
    const misuse = misuseOf(error)
    throw misuse === null ? error : new UsageError(`${misuse.message}\n${helpOf(found.command)}`)
  }
}

/** Said in full before the process ends, and ended even if something that was opened would keep it. */
function fail(error: unknown): void {
  const isMisuse = error instanceof UsageError
  const text = messageOf(error)
  const help = isMisuse && !text.includes('\n') ? `\n${usage()}` : '\n'
  process.stderr.write(`colloquy: ${text}${help}`, () => process.exit(isMisuse ? 2 : 1))
}

// Whatever is written is the user's alone: the home has conversations and keys in it.
process.umask(0o077)
main(process.argv.slice(2)).catch(fail)
