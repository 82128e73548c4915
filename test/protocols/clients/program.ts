// A client library in a process of its own, on the version of Node that it wants: says what it is told to say, and answers what it shows.
import { packagesIn } from '../../fixtures/npm.ts'
import { a2a, a2aHttp } from './a2a.ts'
import { agent, copilotKit, exactAgent } from './ag-ui.ts'
import { chat, chat6, exactChat, exactChat6, socketChat } from './ai-sdk.ts'
import { agents, openResponses } from './by-id.ts'
import type { Client, ClientMaker, Shown } from './client.ts'
import { mcp, mcpSdk, mcpSdkTasks, mcpStateless } from './mcp.ts'
import { responses } from './openai.ts'
import { pythonResponses } from './python.ts'
import { tanStack } from './tanstack.ts'

export const CLIENTS: Readonly<Record<string, ClientMaker>> = {
  'openai, responses': responses,
  'openai in Python': pythonResponses,
  '@openai/agents': agents,
  '@ai-sdk/open-responses': openResponses,
  'AI SDK 6, over HTTP': chat6,
  'AI SDK 6, exact': exactChat6,
  'AI SDK 7, over HTTP': chat,
  'AI SDK 7, exact': exactChat,
  'AI SDK 7, over a WebSocket': socketChat,
  'AG-UI, connecting': agent,
  'AG-UI, exact': exactAgent,
  CopilotKit: copilotKit,
  'TanStack AI': tanStack,
  'MCP 2025-11-25': mcp,
  'MCP 2026-07-28': mcpStateless,
  'MCP’s SDK 1.x': mcpSdk,
  'MCP’s SDK 1.x, tasks': mcpSdkTasks,
  'A2A, JSON-RPC': a2a,
  'A2A, HTTP+JSON': a2aHttp
}

export type Order =
  | { readonly open: string; readonly folder: string; readonly url: string; readonly token: string }
  | { readonly turn: string }
  | { readonly later: true }
export interface Answered {
  readonly thread?: string
  readonly shown?: Shown
  readonly error?: string
}

let client: Client | null = null

async function obey(order: Order): Promise<Answered> {
  if ('open' in order) {
    client = await CLIENTS[order.open]!(packagesIn(order.folder), order)
    return {}
  }
  if ('turn' in order) return { thread: await client!.turn(order.turn), shown: client!.shown() }
  return { shown: await client!.later() }
}

process.on('message', async (order: Order) => {
  const answered = await obey(order).catch(
    (error: unknown): Answered => ({ error: error instanceof Error ? String(error.stack) : String(error) })
  )
  process.send?.(answered)
})
// Libraries report a cut in more than one place.
process.on('unhandledRejection', () => {})
