// colloquy config show: the configuration as it counts, without its secrets.
import { stringify } from 'yaml'
import { unusedOptions } from '../lib/config/config.ts'
import { masked } from '../lib/config/masked.ts'
import { type Command, configOf, INSTALLATION, INSTALLATION_HELP, JSON_HELP, parse } from './command.ts'

export const showConfig: Command = {
  name: 'config show',
  usage: '[--config FILE] [--home FOLDER] [--json]',
  summary:
    'Prints every option as it counts: defaults, file, environment and flags together, secrets masked. As in: colloquy config show --json',
  options: [...INSTALLATION_HELP, JSON_HELP],
  async run(args) {
    const { values } = parse(args, { ...INSTALLATION, json: { type: 'boolean' } })
    const config = configOf(values)
    const { file, unusedVariables: _, ...options } = config
    const shown = masked(options)
    const warnings = unusedOptions(config)
    if (values.json) return void process.stdout.write(`${JSON.stringify({ file, options: shown, warnings })}\n`)
    const notes = [`# ${file ?? 'no file: defaults, environment and flags'}`, ...warnings.map((one) => `# ${one}`)]
    process.stdout.write(`${notes.join('\n')}\n${stringify(shown)}`)
  }
}
