// CopilotKit's runtime over HTTP: which agents there are, their runs as AG-UI, and the threads of its pages. https://docs.copilotkit.ai
import * as v from 'valibot'
import type { Run } from '../../base/types.ts'
import { VERSION } from '../../base/version.ts'
import { type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { objectOf, queryBoolean, queryInteger } from '../../http/schema.ts'
import {
  anEvent,
  arrayOf,
  mapOf,
  one,
  openly,
  optionalText,
  repeatable,
  shaped,
  text,
  yesNo
} from '../../routes/answers.ts'
import type { Services } from '../../routes/services.ts'
import { agUi, PROTOCOL } from '../ag-ui/index.ts'
import { type RunInput, runInput } from '../ag-ui/input.ts'
import { namesOf } from '../ag-ui/translate.ts'
import { throughDoor } from '../door.ts'
import { aboutThread, NAME_MAX, stopThread, visibleThread } from '../threads.ts'
import { CopilotThreads } from './threads.ts'

const PAGE_MAX = 100
const TITLE_MAX = 256

const name = v.pipe(v.string(), v.minLength(1), v.maxLength(NAME_MAX))
const listQuery = objectOf({
  agentId: name,
  includeArchived: v.optional(queryBoolean, 'false'),
  limit: v.optional(queryInteger({ min: 1, max: PAGE_MAX }), '50'),
  cursor: v.optional(queryInteger({ min: 0 }), '0')
})
/** Its client names the agent with each change; a thread knows its own. */
const agentId = v.optional(name)
const changeBody = objectOf({
  agentId,
  name: v.optional(v.pipe(v.string(), v.maxLength(TITLE_MAX))),
  archived: v.optional(v.boolean())
})
const threadBody = objectOf({ agentId })
const stopBody = objectOf({ runId: v.optional(name) })

const THREAD = openly(
  { id: text, agentId: text, archived: yesNo, createdAt: text, updatedAt: text },
  { name: optionalText }
)
const INFO = openly({ version: text, mode: text, agents: mapOf(openly({ name: text, description: text })) })

export function copilotKitRoutes(services: Services): Route[] {
  const { assistants, config } = services
  const { run, connect } = agUi(services)
  const threads = new CopilotThreads(services)

  const info = async ({ user }: UserCall): Promise<Reply> => {
    const all = await assistants.system(user.id)
    const agents = all.map(({ graph_id, name, description }) => {
      const about = { name: graph_id, description: description ?? name, className: 'Agent' }
      return [graph_id, about] as const
    })
    return {
      json: {
        version: VERSION,
        agents: Object.fromEntries(agents),
        audioFileTranscriptionEnabled: false,
        mode: 'sse',
        // Its socket is of another service.
        threadEndpoints: { list: true, inspect: false, mutations: true, realtimeMetadata: false },
        suggestions: false,
        a2uiEnabled: false,
        openGenerativeUIEnabled: false,
        telemetryDisabled: true
      }
    }
  }

  /** Like a run that has ended, one of somebody else's thread is not stopped. */
  const stop = async (call: UserCall<v.InferOutput<typeof stopBody>>): Promise<Reply> => {
    const threadId = await visibleThread(services, call, PROTOCOL, call.params.id!)
    const { runId } = call.body
    const isNamed = (one: Run) => runId === namesOf(one).runId || runId === one.run_id
    const stopped =
      threadId === null ? 0 : await stopThread(services, threadId, runId === undefined ? undefined : isNamed)
    if (stopped === 0) return { json: { stopped: false, message: 'Nothing of this thread is running' } }
    return {
      json: { stopped: true, interrupt: { type: 'RUN_ERROR', message: 'Run stopped by user', code: 'STOPPED' } }
    }
  }

  const path = '/api/copilotkit'
  const agent = `${path}/agent/{agent}`
  const thread = `${path}/threads/{id}`
  const named = (call: UserCall) => call.params.id ?? null
  const about = (action: string) => aboutThread(services, PROTOCOL, named, action)
  const streaming = {
    method: 'POST',
    isStream: true,
    body: runInput,
    bodyLimit: config.server.body_bytes,
    answers: { 200: { description: 'Events of AG-UI', type: 'text/event-stream', schema: anEvent } }
  } as const
  const changing = { permission: 'threads:write', rule: about('update'), refusals: [404] } as const
  return throughDoor({ errors: 'contract', part: 'copilotkit' }, [
    route({
      method: 'GET',
      path: `${path}/info`,
      permission: 'any',
      rule: null,
      summary: 'What CopilotKit’s pages ask of a runtime: its agents, and what it can do',
      answers: one(INFO),
      handler: info
    }),
    route({
      ...streaming,
      path: `${agent}/run`,
      permission: 'runs:create',
      rule: null,
      summary: 'Run an agent, for CopilotKit',
      refusals: [404, 409, 429],
      reads: repeatable,
      handler: (call) => run(call, call.params.agent!, call.body)
    }),
    route({
      ...streaming,
      path: `${agent}/connect`,
      permission: 'runs:read',
      rule: aboutThread(services, PROTOCOL, ({ body }) => (body as RunInput).threadId),
      summary: 'A thread from its start, and what follows, for CopilotKit',
      refusals: [429],
      handler: (call) => connect(call, call.body)
    }),
    route({
      method: 'POST',
      path: `${agent}/stop/{id}`,
      permission: 'runs:cancel',
      rule: about('update'),
      body: stopBody,
      bodyOptional: true,
      summary: 'Stop the runs of a thread, or the one that is named',
      answers: one(openly({ stopped: yesNo }, { message: text })),
      handler: stop
    }),
    route({
      method: 'GET',
      path: `${path}/threads`,
      permission: 'threads:read',
      rule: null,
      query: listQuery,
      summary: 'The threads of an agent, newest first',
      answers: one(shaped({ threads: arrayOf(THREAD), nextCursor: optionalText })),
      handler: async (call) => ({ json: await threads.list(call, call.query) })
    }),
    route({
      ...changing,
      method: 'PATCH',
      path: thread,
      body: changeBody,
      summary: 'Rename a thread, archive it, or bring it back',
      answers: one(THREAD),
      refusals: [404, 409],
      handler: async (call) => ({ json: await threads.change(call, call.params.id!, call.body) })
    }),
    route({
      ...changing,
      method: 'POST',
      path: `${thread}/archive`,
      body: threadBody,
      bodyOptional: true,
      summary: 'Archive a thread: it is in no list that does not ask for it',
      answers: one(shaped({ threadId: text, archived: yesNo })),
      handler: async (call) => {
        await threads.change(call, call.params.id!, { archived: true })
        return { json: { threadId: call.params.id!, archived: true } }
      }
    }),
    route({
      method: 'DELETE',
      path: thread,
      permission: 'threads:delete',
      rule: about('delete'),
      body: threadBody,
      bodyOptional: true,
      summary: 'Delete a thread',
      answers: one(shaped({ threadId: text, deleted: yesNo })),
      refusals: [404, 409],
      handler: async (call) => {
        await threads.remove(call, call.params.id!)
        return { json: { threadId: call.params.id!, deleted: true } }
      }
    })
  ])
}
