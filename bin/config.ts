// colloquy config show: the configuration as it counts, without its secrets.
import { stringify } from 'yaml'
import { shownConfig } from '../lib/config/config.ts'
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, JSON_HELP, parse } from './command.ts'

export const showConfig: Command = {
  name: 'config show',
  usage: '[--config FILE] [--home FOLDER] [--json]',
  summary:
    'Prints every option as it counts: defaults, file, environment and flags together, secrets masked. As in: colloquy config show --json',
  options: [...INSTALLATION_HELP, JSON_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, json: { type: 'boolean' } })
    const shown = shownConfig(configOf(values))
    if (values.json) return void process.stdout.write(`${JSON.stringify(shown)}\n`)
    const { file, options, warnings } = shown
    const notes = [`# ${file ?? 'no file: defaults, environment and flags'}`, ...warnings.map((one) => `# ${one}`)]
    process.stdout.write(`${notes.join('\n')}\n${stringify(options)}`)
  }
}
