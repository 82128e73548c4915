// colloquy bench: the bench suite, from a checkout: the package does not carry it.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from './command.ts'

const SUITE = new URL('../bench/index.js', import.meta.url)

export const bench: Command = {
  name: 'bench',
  usage: '[NAME]... [--quick] [--repeats NUMBER] [--joiners NUMBER] [--store MODULE] [--out FILE]',
  summary: 'Measures the gateway, or a store of yours beside ours, against a bare floor in the same run.',
  options: [
    ['NAME', 'which benches; default all of them, see bench/README.md'],
    ['--quick', 'small sizes, one repeat'],
    ['--repeats NUMBER', 'default 3'],
    ['--joiners NUMBER', 'readers of the fan-out'],
    ['--store MODULE', 'a store of yours, for the bench stores'],
    ['--out FILE', 'JSON lines, for report and compare']
  ],
  async run(args) {
    if (!existsSync(fileURLToPath(SUITE)))
      throw new Error('The bench suite is part of the repository, not of the installed package')
    // Loaded when it is asked for: serving needs none of it. The suite is typed where it stands.
    const { main } = (await import(SUITE.href)) as { main(args: string[]): Promise<void> }
    await main(args)
    process.exit(0)
  }
}
