// A client library in a process of its own, on the version of Node that it wants: says what it is told to say, and answers what it shows.
import { packagesIn } from '../../fixtures/npm.ts'
import { agent, copilotKit, exactAgent } from './ag-ui.ts'
import { chat, exactChat, socketChat } from './ai-sdk.ts'
import type { Client, ClientMaker, Shown } from './client.ts'
import { responses } from './openai.ts'

export const CLIENTS: Readonly<Record<string, ClientMaker>> = {
  'openai, responses': responses,
  'AI SDK, over HTTP': chat,
  'AI SDK, exact': exactChat,
  'AI SDK, over a WebSocket': socketChat,
  'AG-UI, connecting': agent,
  'AG-UI, exact': exactAgent,
  CopilotKit: copilotKit
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
