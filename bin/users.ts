// colloquy users remove: an account goes, and everything that its person has left; also beside a running server.
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, parse, UsageError } from './command.ts'

export const removeUser: Command = {
  name: 'users remove',
  usage: 'EMAIL [--config FILE] [--home FOLDER]',
  summary:
    'Removes an account: threads, files, memory, items, assistants, crons and tokens go with it. The server does that at once, or when it starts.',
  options: INSTALLATION_HELP,
  async run(args) {
    const { values, positionals } = parse(args, INSTALLATION, true)
    const [email, ...more] = positionals
    if (email === undefined || more.length > 0) throw new UsageError('One EMAIL is needed')
    const { removeAccount } = await import('../lib/operator/operator.ts')
    const { id } = await removeAccount(configOf(values), email)
    process.stdout.write(
      `${email} is gone. What it has left is removed by the server, at once or when it starts: colloquy jobs list shows departure ${id} until then\n`
    )
  }
}
