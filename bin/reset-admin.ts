// colloquy reset-admin: the administrator's way back in, also beside a running server.
import {
  type Command,
  configOf,
  INSTALLATION,
  INSTALLATION_HELP,
  JSON_HELP,
  JSON_OPTION,
  parse,
  print
} from './command.ts'

export const resetAdmin: Command = {
  name: 'reset-admin',
  usage: '[--email ADDRESS] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Gives an administrator a new password, left in a file of the home that only the operator can read. Example: colloquy reset-admin --email root@example.com',
  options: [['--email ADDRESS', 'which administrator; default the first one'], JSON_HELP, ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, ...JSON_OPTION, email: { type: 'string' } })
    const { resetAdministrator } = await import('../lib/operator/operator.ts')
    const { email, file } = await resetAdministrator(configOf(values), values.email ?? null)
    print(values.json, `${email}: the new password is in ${file}`, { email, file })
  }
}
