#!/usr/bin/env node
// The command line: serve, reset-admin.
import { parseArgs } from 'node:util'
import { pino } from 'pino'
import { ConfigError, loadConfig } from '../lib/config.ts'
import { resetAdministrator, startGateway } from '../lib/gateway.ts'

const USAGE = `colloquy serve [--config FILE] [--home FOLDER] [--host HOST] [--port NUMBER]
colloquy reset-admin [--email ADDRESS] [--config FILE] [--home FOLDER]`

/** A second signal ends the process at once: the first has had its chance. */
function onSignals(stop: () => Promise<void>): void {
  let isStopping = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (isStopping) process.exit(1)
      isStopping = true
      stop().then(
        () => process.exit(0),
        () => process.exit(1)
      )
    })
  }
}

async function serve(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      config: { type: 'string' },
      home: { type: 'string' },
      host: { type: 'string' },
      port: { type: 'string' }
    }
  })
  const config = loadConfig({ file: values.config, home: values.home, host: values.host, port: values.port })
  const log = pino({ level: config.log_level }, pino.destination({ dest: 2, sync: true }))
  const gateway = await startGateway({ config, log })
  onSignals(() => gateway.stop())
  process.stdout.write(`Colloquy is listening on ${gateway.url}\n`)
}

/** Beside a running server as well: SQLite lets two processes write, one after the other. */
async function reset(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { config: { type: 'string' }, home: { type: 'string' }, email: { type: 'string' } }
  })
  const config = loadConfig({ file: values.config, home: values.home })
  const { email, file } = await resetAdministrator(config, values.email ?? null)
  process.stdout.write(`${email}: the new password is in ${file}\n`)
}

async function main([command, ...args]: string[]): Promise<void> {
  if (command === 'serve') return serve(args)
  if (command === 'reset-admin') return reset(args)
  process.stderr.write(`${USAGE}\n`)
  process.exitCode = command === 'help' || command === '--help' ? 0 : 2
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const text = error instanceof ConfigError || error instanceof Error ? error.message : String(error)
  process.stderr.write(`colloquy: ${text}\n`)
  process.exitCode = 1
})
