// colloquy doctor: what is wrong with an installation, and how to mend it.
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, JSON_HELP, parse, print } from './command.ts'

const MARKS = { good: ' ok ', warn: 'warn', bad: 'BAD ' } as const

export const doctor: Command = {
  name: 'doctor',
  usage: '[--config FILE] [--home FOLDER] [--json]',
  summary:
    'Looks at the installation on this machine, also beside a running server, and ends with 1 when something is bad. As in: colloquy doctor --json',
  options: [...INSTALLATION_HELP, JSON_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, json: { type: 'boolean' } })
    const { examine } = await import('../lib/operator/doctor.ts')
    const findings = await examine(configOf(values))
    for (const finding of findings)
      print(values.json === true, `${MARKS[finding.is]}  ${finding.check.padEnd(12)} ${finding.text}`, finding)
    if (findings.some(({ is }) => is === 'bad')) process.exitCode = 1
  }
}
