// The server under the bench, as a process of its own: the gateway, or a floor. It is steered over IPC, and tells its own CPU time
// and memory.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { loadConfig } from '../lib/config/config.ts'
import { startGateway } from '../lib/gateway.ts'
import { benchAgent } from './agent.ts'
import { type FloorOptions, startFloor } from './floors.ts'
import { Word } from './word.ts'

export interface GatewayCommand {
  readonly type: 'gateway'
  /** Sections of colloquy.yaml. */
  readonly config: object
  /** The configured agent, which asks a model, in place of the one that tells scripts. */
  readonly asksModel: boolean
}

/** What the bench says. */
export type Command =
  | GatewayCommand
  | ({ readonly type: 'floor' } & FloorOptions)
  /** Watched: the delay of the loop is measured from now on. It costs a timer, so only who asks for the figure has it. */
  | { readonly type: 'go'; readonly isWatched: boolean }
  | { readonly type: 'usage' }
  | { readonly type: 'stop' }

export interface Started {
  readonly url: string
  /** The database file of a gateway; '' of a floor. */
  readonly database: string
}

export interface Usage {
  /** CPU of the process since it started, in microseconds; without that of the store's threads. */
  readonly cpu: number
  /** CPU of the store's threads, in microseconds: the one that writes, and the one that carries its log over. */
  readonly store: number
  /** Bytes. */
  readonly rss: number
  /** Delay of the event loop since the word to begin, in ms; 0 where it was not watched. */
  readonly loopP99: number
}

/** Of the timer that measures the loop, in ms: its own time is no delay. */
const RESOLUTION_MS = 5

const word = new Word()
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
let stop: () => Promise<void> = async () => {}
/** Threads that were there before the gateway: those that have come since are the store's. */
let threadsBefore: ReadonlySet<string> | null = null

function silent(): void {}
const log = {
  info: silent,
  warn: silent,
  error: (fields: object, text: string) => process.stderr.write(`${text} ${JSON.stringify(fields)}\n`)
}

async function startOurs({ config, asksModel }: GatewayCommand): Promise<Started> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const file = join(home, 'colloquy.yaml')
  // JSON is YAML: the options are checked as everybody's are.
  writeFileSync(file, JSON.stringify(config))
  const options = loadConfig({ file, home, port: 0, env: {}, cwd: home })
  // The pool's threads start with its first work, and are not the store's.
  await Promise.all(Array.from({ length: 8 }, () => stat(home)))
  threadsBefore = new Set(threads())
  const gateway = await startGateway({
    config: options,
    log,
    ...(!asksModel && { agent: benchAgent(() => word.next) })
  })
  stop = async () => {
    await gateway.stop()
    rmSync(home, { recursive: true, force: true })
  }
  return { url: gateway.url, database: options.database.sqlite_path }
}

// ------------------------------------------------------------------------------------------------------- usage

/** Linux tells every thread's time; elsewhere the store's counts as the gateway's. */
function threads(): string[] {
  try {
    return readdirSync('/proc/self/task')
  } catch {
    return []
  }
}

function cpuOf(thread: string): number {
  try {
    return Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1000
  } catch {
    return 0
  }
}

function usage(): Usage {
  const { user, system } = process.cpuUsage()
  const storeThreads = threads().filter((id) => threadsBefore?.has(id) === false)
  const store = storeThreads.reduce((sum, thread) => sum + cpuOf(thread), 0)
  return {
    cpu: user + system - store,
    store,
    rss: process.memoryUsage.rss(),
    loopP99: Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS)
  }
}

process.on('message', async (order: Command) => {
  if (order.type === 'gateway') process.send?.(await startOurs(order))
  else if (order.type === 'floor') {
    const floor = await startFloor(order, () => word.next)
    stop = floor.stop
    process.send?.({ url: floor.url, database: '' } satisfies Started)
  } else if (order.type === 'go') {
    if (order.isWatched) delay.enable()
    delay.reset()
    word.give()
  } else if (order.type === 'usage') process.send?.(usage())
  else {
    await stop()
    process.exit(0)
  }
})
