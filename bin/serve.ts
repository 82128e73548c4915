// colloquy serve: the gateway, until a signal ends it.
import { loadConfig, unusedOptions } from '../lib/config/config.ts'
import { type Command, INSTALLATION, INSTALLATION_HELP, JSON_HELP, JSON_OPTION, parse, print } from './command.ts'
import { openLog } from './log.ts'

/**
 * A second signal ends the process at once: the first has had its chance. SIGHUP of a terminal says that it is gone; any other asks for the
 * configuration to be read again.
 */
function onSignals(stop: (signal: string) => Promise<void>, reload: () => void): void {
  let isStopping = false
  const isTerminal = process.stdin.isTTY
  if (!isTerminal) process.on('SIGHUP', reload)
  for (const signal of ['SIGTERM', 'SIGINT', ...(isTerminal ? (['SIGHUP'] as const) : [])] as const) {
    process.on(signal, () => {
      if (isStopping) process.exit(1)
      isStopping = true
      stop(signal).then(
        () => process.exit(0),
        () => process.exit(1)
      )
    })
  }
}

export const serve: Command = {
  name: 'serve',
  usage:
    '[--config FILE] [--home FOLDER] [--host HOST] [--port NUMBER] [--langgraph FILE [--watch]] [--check] [--json]',
  summary:
    'Starts the gateway. Prints one line with its URL on stdout; logs are JSON lines on stderr. SIGTERM drains, SIGHUP reads the configuration again. As in: colloquy serve --port 8001',
  options: [
    ...INSTALLATION_HELP,
    ['--host HOST', 'interface to listen on; default 127.0.0.1'],
    ['--port NUMBER', 'port; 0 takes a free one; default 8001'],
    ['--langgraph FILE', 'langgraph.json or its folder: serves its graphs'],
    ['--check', 'reads the configuration, says what is wrong with it, and ends: 0 when it can be used, else 1'],
    ['--watch', 'loads the graphs anew when their files change'],
    JSON_HELP
  ],
  async run(args) {
    const options = { host: { type: 'string' }, port: { type: 'string' }, langgraph: { type: 'string' } } as const
    const { values } = parse(args, {
      ...INSTALLATION,
      ...options,
      ...JSON_OPTION,
      watch: { type: 'boolean' },
      check: { type: 'boolean' }
    })
    const { config: file, check, json, ...flags } = values
    const config = loadConfig({ file, ...flags })
    if (check) {
      const warnings = unusedOptions(config)
      const lines = [
        ...warnings.map((sentence) => `warning: ${sentence}`),
        `${config.file ?? 'The configuration'} can be used`
      ]
      return print(json, lines.join('\n'), { file: config.file, warnings })
    }
    // Loaded only now: a configuration that is refused is refused at once.
    const [{ pino }, { startGateway }] = await Promise.all([import('pino'), import('../lib/gateway.ts')])
    const log = openLog(pino, config.log)
    const stop = async (signal: string) => {
      log.info({ signal }, 'a signal ends the process; a second one ends it at once')
      await (await starting).stop()
    }
    const reload = () => {
      // What is wrong was logged where it was read.
      starting.then((gateway) => gateway.reload()).catch(() => {})
    }
    // Before anybody can connect a signal may end the process as it is.
    const starting = startGateway({
      config,
      log,
      readConfig: () => loadConfig({ file, ...flags }),
      onListening: () => onSignals(stop, reload)
    })
    const { url } = await starting
    print(json, `Colloquy is listening on ${url}`, { url })
  }
}
