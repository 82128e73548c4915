// What a project puts in front of the routes: its rules about who calls, and its app, each in the language it is written in. Python's
// run in a process of their own, so that no graph holds up a sign-in.
import { withTimeout } from '../../base/waiting.ts'
import type { AccessRules } from './access-policy.ts'
import { loadAuth } from './auth-handlers.ts'
import { loadApp, type ProjectSettings, pythonFront } from './config-file.ts'
import type { FetchApp } from './custom-app.ts'
import type { GraphLog, GraphPorts } from './graph-ports.ts'
import { PythonApp } from './python-app.ts'
import { doorHandlers } from './python-door.ts'
import { type Opened, type PythonOptions, PythonProcess, type PythonProjectSpec } from './python-process.ts'
import { PythonRules } from './python-rules.ts'
import { Renewed, Uses } from './renewed.ts'

/** Time for the app's end of its lifespan, in ms. */
const STOP_MS = 5_000

interface Front {
  readonly rules: AccessRules | null
  readonly app: FetchApp | null
  /** Loads Python files again. @throws AgentFileError, and the old ones stay */
  reload(): Promise<void>
  close(): Promise<void>
}

/** @param settings null: there is no langgraph.json. @throws AgentFileError */
export async function loadFront(
  path: string,
  settings: ProjectSettings | null,
  ports: Pick<GraphPorts, 'log' | 'door'>,
  options: PythonOptions
): Promise<Front> {
  if (!settings) return { rules: null, app: null, reload: async () => {}, close: async () => {} }
  const spec = pythonFront(path, settings)
  const python = spec && (await PythonFront.load(spec, ports, options))
  const { auth, http } = settings
  return {
    rules: python?.rules ?? (auth === null ? null : await loadAuth(path, auth)),
    app: python?.app ?? (http.app === null ? null : await loadApp(path, http.app)),
    reload: async () => python?.reload(),
    close: async () => python?.close()
  }
}

/** A process with them; replaced when it is gone. */
class RunningFront {
  readonly #process: PythonProcess
  readonly opened: Opened
  readonly #uses = new Uses(() => this.close())

  constructor(process: PythonProcess, opened: Opened) {
    this.#process = process
    this.opened = opened
  }

  get isGone(): boolean {
    return this.#process.isGone
  }

  get routes() {
    return this.opened.routes ?? { isRouter: true, isAround: false, routes: [] }
  }

  async request(number: number, head: object, user: object | null): Promise<void> {
    await this.ask('request', number, head, user)
  }

  leave(number: number): void {
    this.#process.send('leave', number)
  }

  ask(name: string, ...about: readonly unknown[]): Promise<unknown> {
    return this.#uses.during(() => this.#process.call(name, ...about))
  }

  retire(): void {
    this.#uses.retire()
  }

  async close(): Promise<void> {
    if (this.opened.routes && !this.isGone)
      await withTimeout(
        this.#process.call('stop').catch(() => {}),
        STOP_MS
      )
    await this.#process.close()
  }
}

class PythonFront {
  readonly rules: PythonRules | null
  readonly app: PythonApp | null
  readonly #current: Renewed<RunningFront>
  readonly #start: () => Promise<RunningFront>

  private constructor(
    spec: PythonProjectSpec,
    current: Renewed<RunningFront>,
    start: () => Promise<RunningFront>,
    opened: Opened
  ) {
    this.#current = current
    this.#start = start
    const ask = async (name: string, about: object) => (await current.get()).ask(name, about)
    this.rules = spec.auth ? new PythonRules(opened.authenticates === true, ask) : null
    this.app = opened.routes ? new PythonApp(opened.routes, () => current.get()) : null
  }

  static async load(
    spec: PythonProjectSpec,
    { log, door }: Pick<GraphPorts, 'log' | 'door'>,
    options: PythonOptions
  ): Promise<PythonFront> {
    let front: PythonFront | null = null
    const call =
      (name: keyof PythonApp['handlers']) =>
      (...args: readonly unknown[]) => {
        const handlers = front?.app?.handlers as Record<string, (...given: readonly unknown[]) => unknown> | undefined
        return handlers?.[name]?.(...args)
      }
    const handlers = {
      ...{ body: call('body'), head: call('head'), part: call('part'), ours: call('ours') },
      ...doorHandlers(door, (request) => front?.app?.callerOf(Number(request)) ?? null),
      log: (level: keyof GraphLog, _run: null, fields: object, text: string) => log[level](fields, text)
    }
    const start = async () => {
      const { process, opened } = await PythonProcess.start(spec, handlers, options, log)
      const { python, pid, loadMs: load_ms } = opened
      log.info({ project: spec.name, python, pid, load_ms }, "the project's rules and routes in Python are loaded")
      if (opened.routes) front?.app?.use(opened.routes)
      return new RunningFront(process, opened)
    }
    const current = new Renewed(start)
    const { opened } = await current.first()
    front = new PythonFront(spec, current, start, opened)
    return front
  }

  async reload(): Promise<void> {
    await this.#current.replace(this.#start)
  }

  async close(): Promise<void> {
    await (await this.#current.newest)?.close()
  }
}
