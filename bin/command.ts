// What every command has: its options, its help text, and the configuration that they name.
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { type Config, loadConfig } from '../lib/config/config.ts'

/** Bad usage: the message is a sentence, shown above the command's help, and the process ends with 2. */
export class UsageError extends Error {}

export interface Command {
  /** As it is typed: `token create`. */
  readonly name: string
  /** Its options, one line. */
  readonly usage: string
  /** What it does, one sentence. */
  readonly summary: string
  /** A line for each option. */
  readonly options: readonly (readonly [option: string, meaning: string])[]
  /** @throws UsageError for arguments that it does not take. */
  run(args: string[]): Promise<void>
}

type Options = NonNullable<ParseArgsConfig['options']>

/** Options of every command that looks at an installation. */
export const INSTALLATION = { config: { type: 'string' }, home: { type: 'string' } } as const
export const INSTALLATION_HELP = [
  ['--config FILE', 'configuration file; default COLLOQUY_CONFIG, else ./colloquy.yaml if it is there'],
  ['--home FOLDER', 'data home; default COLLOQUY_HOME, else what the configuration says, else ./.colloquy']
] as const

/**
 * Arguments by name.
 * @throws UsageError naming the first one that is unknown or incomplete
 */
export function parse<const Taken extends Options>(
  args: string[],
  options: Taken,
  allowPositionals = false
): ReturnType<typeof parseArgs<{ args: string[]; options: Taken; allowPositionals: boolean }>> {
  try {
    return parseArgs({ args, options, allowPositionals })
  } catch (error) {
    throw misuseOf(error) ?? error
  }
}

/** What `parseArgs` refuses; null: something else. */
export function misuseOf(error: unknown): UsageError | null {
  if (error instanceof UsageError) return error
  const isRefused = error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS_')
  return isRefused ? new UsageError(error.message.split('. ')[0]!) : null
}

/** An option that is there or not. */
export const FLAG = { type: 'boolean', default: false } as const
export const JSON_OPTION = { json: FLAG } as const
export const JSON_HELP = ['--json', 'prints JSON, an object a line'] as const

/** One line: for people, or as JSON for programs. */
export function print(isJson: boolean, text: string, json: object): void {
  if (isJson) process.stdout.write(`${JSON.stringify(json)}\n`)
  else if (text !== '') process.stdout.write(`${text}\n`)
}

const PAGE = 1000

/** All of a list that is read in pages, as far as it is asked for. */
export async function* allOf<T>(
  read: (page: { readonly limit: number; readonly offset: number }) => Promise<readonly T[]>
): AsyncGenerator<T> {
  for (let offset = 0; ; offset += PAGE) {
    const page = await read({ limit: PAGE, offset })
    yield* page
    if (page.length < PAGE) return
  }
}

/** @throws ConfigError when it cannot be used */
export function configOf({ config, home }: { config?: string | undefined; home?: string | undefined }): Config {
  return loadConfig({ file: config, home })
}

/** The text of `--help`. */
export function helpOf({ name, usage, summary, options }: Command): string {
  const width = Math.max(0, ...options.map(([option]) => option.length))
  const lines = options.map(([option, meaning]) => `  ${option.padEnd(width)}  ${meaning}\n`)
  return `colloquy ${name} ${usage}\n\n${summary}\n\n${lines.join('')}`
}
