// The Auth object of LangGraph's SDK that langgraph.json names: the project's own authentication and authorization.
import { AgentFileError } from '../../agent/agent-file.ts'
import { projectExport } from './config-file.ts'

interface AuthQuestion {
  readonly event: string
  readonly resource: string
  readonly action: string
  /** The requested action: a handler may change it. */
  readonly value: object
  readonly permissions: readonly string[]
  readonly user: object
}

/** Where the SDK's object keeps its handlers. */
const CACHE = '~handlerCache'

interface Handlers {
  readonly authenticate?: (request: Request) => unknown
  readonly callbacks?: Readonly<Record<string, (question: AuthQuestion) => unknown>>
}

export class AuthHandlers {
  readonly #handlers: Handlers

  constructor(handlers: Handlers) {
    this.#handlers = handlers
  }

  get authenticates(): boolean {
    return typeof this.#handlers.authenticate === 'function'
  }

  authenticate(request: Request): unknown {
    return this.#handlers.authenticate?.(request)
  }

  /** Result of the most specific handler for the event; undefined: none. */
  authorize(question: AuthQuestion): unknown {
    const { resource, action } = question
    const { callbacks = {} } = this.#handlers
    const name = [`${resource}:${action}`, resource, `*:${action}`, '*'].find((one) => Object.hasOwn(callbacks, one))
    return name === undefined ? undefined : callbacks[name]!(question)
  }
}

/** @param place as `./auth.ts:auth`. @throws AgentFileError */
export async function loadAuth(path: string, place: string): Promise<AuthHandlers> {
  const auth = await projectExport(path, place, 'auth.path')
  if (typeof auth !== 'object' || auth === null || !(CACHE in auth))
    throw new AgentFileError(`What ${place} exports is not an Auth object of @langchain/langgraph-sdk`)
  // An internal member of the SDK, which LangGraph's servers read too.
  return new AuthHandlers(auth[CACHE] as Handlers)
}
