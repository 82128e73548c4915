// The channel between a graph's thread and ours, over which errors of agents and of their files keep their class.
import { AgentFileError } from '../../agent/agent-file.ts'
import { AgentError } from '../../agent/runtime.ts'
import { type Handlers, type SentError, ThreadChannel, type ThreadPort } from '../../base/thread-channel.ts'

export type { ThreadPort }

interface SentAgentError extends SentError {
  readonly kind: 'agent' | 'file' | 'other'
  readonly stopReason: string | null
}

export class WorkerChannel extends ThreadChannel<SentAgentError> {
  constructor(port: ThreadPort, handlers: Handlers) {
    super(port, handlers, { sent, received })
  }
}

/** Calls a method of a port; the other thread names only methods of its type. */
export function called(port: unknown, method: string, args: readonly unknown[]): unknown {
  return (port as Record<string, (...given: readonly unknown[]) => unknown>)[method]!(...args)
}

function sent(error: unknown): SentAgentError {
  const kind = error instanceof AgentError ? 'agent' : error instanceof AgentFileError ? 'file' : 'other'
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) }
  return { kind, name, message, stopReason: error instanceof AgentError ? error.stopReason : null }
}

function received({ kind, name, message, stopReason }: SentAgentError): Error {
  if (kind === 'agent') return new AgentError(name, message, stopReason)
  if (kind === 'file') return new AgentFileError(message)
  return Object.assign(new Error(message), { name })
}
