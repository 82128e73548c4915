// A message for the agent at work, which takes it before its next model call.
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import type { HumanMessage, Run } from '../base/types.ts'
import { describedAs, jsonObject, listOf, objectOf } from '../http/schema.ts'
import { type Call, type Reply, type Route, route } from '../http/route.ts'
import { nothing } from './answers.ts'
import { readInput, refusedValue } from './input.ts'
import { runOf } from './run-view.ts'
import type { Services } from './services.ts'

const MESSAGES_MAX = 16

const inputBody = v.pipe(
  objectOf({
    messages: v.pipe(
      listOf(jsonObject, MESSAGES_MAX),
      v.minLength(1),
      describedAs({ examples: [[{ role: 'user', content: 'In French, please' }]] })
    )
  }),
  describedAs({ title: 'RunInput' })
)
type InputBody = v.InferOutput<typeof inputBody>

/** Resolves when the agent at work has taken them, and they are stored. @throws Failure input_not_taken when it never will */
export async function giveInput(
  { agent, registry }: Pick<Services, 'agent' | 'registry'>,
  { run_id: id }: Run,
  messages: readonly HumanMessage[],
  left: AbortSignal
): Promise<void> {
  const actor = agent.takesInput ? registry.find(id) : undefined
  if (!(await actor?.inbox.put(messages, left))) throw fail('input_not_taken', { id })
  await actor?.flushed()
}

export function runInputRoutes(services: Services): Route[] {
  const { config } = services

  /** Answered when the agent has taken it; 409 when it never will, and the message is still its sender's. */
  const give = async (call: Call<InputBody>): Promise<Reply> => {
    const run = await runOf(services, call)
    const messages = readInput(call.body.messages, 'messages').filter(
      (one): one is HumanMessage => one.type === 'human'
    )
    if (messages.length !== call.body.messages.length) throw refusedValue(['body', 'messages'], 'only human messages')
    const left = new AbortController()
    call.res.once('close', () => left.abort())
    await giveInput(services, run, messages, left.signal)
    return { status: 204 }
  }

  return [
    route({
      method: 'POST',
      path: '/api/threads/{thread_id}/runs/{run_id}/input',
      permission: 'runs:create',
      thread: 'write',
      rule: 'threads:update',
      body: inputBody,
      summary: 'Give a message to the agent at work: answered when the agent has taken it',
      answers: nothing,
      refusals: [409],
      bodyLimit: config.server.body_bytes,
      handler: give
    })
  ]
}
