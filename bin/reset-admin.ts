// colloquy reset-admin: the administrator's way back in, also beside a running server.
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, parse } from './command.ts'

export const resetAdmin: Command = {
  name: 'reset-admin',
  usage: '[--email ADDRESS] [--config FILE] [--home FOLDER]',
  summary: 'Gives an administrator a new password, left in a file of the home that only the operator can read.',
  options: [['--email ADDRESS', 'which administrator; default the first one'], ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, email: { type: 'string' } })
    const { resetAdministrator } = await import('../lib/operator/operator.ts')
    const { email, file } = await resetAdministrator(configOf(values), values.email ?? null)
    process.stdout.write(`${email}: the new password is in ${file}\n`)
  }
}
