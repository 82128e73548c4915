// What people are told of each route, and what it answers: the half of the description that no schema of a request holds. A test
// walks the table and fails on a route that has no words here, and on words of a route that is gone.
import type { JsonObject } from '../types.ts'

export interface Answer {
  readonly description?: string
  readonly schema?: JsonObject
  /** Media type; JSON where nothing is said. */
  readonly type?: string
  /** It is a stream of events. */
  readonly events?: true
}
export interface Told {
  readonly summary: string
  /** By status; null: without a body. */
  readonly answers: Readonly<Record<string, Answer | null>>
  /** Refusals beside those that the route's guards and schemas make. */
  readonly refusals?: readonly number[]
  /** Members of the query that the handler reads itself. */
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly upload?: true
}

const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })
const listOf = (items: JsonObject): JsonObject => ({ type: 'array', items })
const anObject: JsonObject = { type: 'object' }
const text: JsonObject = { type: 'string' }
const one = (schema: JsonObject = anObject, status = 200): Told['answers'] => ({ [status]: { schema } })
const nothing: Told['answers'] = { 204: null }
const file = (type: string): Told['answers'] => ({ 200: { type, schema: { type: 'string' } } })
const stream: Told['answers'] = { 200: { description: 'Events until `end`', events: true } }
const success = one({ type: 'object', properties: { success: { type: 'boolean' } } })

const told = (
  summary: string,
  answers: Told['answers'] = one(),
  more: Omit<Told, 'summary' | 'answers'> = {}
): Told => ({
  summary,
  answers,
  ...more
})
const starts = (summary: string, answers: Told['answers']): Told =>
  told(summary, answers, {
    refusals: [404, 409, 429],
    headers: { 'Idempotency-Key': 'The same key and body are the same run, also after a restart' }
  })
const position = {
  last_event_id: 'Go on after this cursor, where Last-Event-ID cannot be set',
  stream_mode: 'Modes, repeated or with commas: messages-tuple, values, updates, custom...',
  mode: '`snapshot`: begin with how the run stands'
}
const joins = (summary: string, answers: Told['answers'] = stream): Told =>
  told(summary, answers, { refusals: [429], query: position, headers: { 'Last-Event-ID': 'Go on after this cursor' } })

const AUTH = '/api/v1/auth'
const T = '/api/threads/{thread_id}'
const R = `${T}/runs/{run_id}`
const A = '/api/assistants/{assistant_id}'

/** By `METHOD path`, as the API table has them. */
export const WORDS: Readonly<Record<string, Told>> = {
  'GET /': told('The page, for browsers; a few links, for who asks for JSON', { 200: { schema: anObject } }),
  'GET /colloquy.js': told('The client for browsers', file('text/javascript')),
  'GET /favicon.ico': told('The picture of the page', file('image/svg+xml')),
  'GET /console/sandbox': told('Where the page shows documents of agents', file('text/html')),
  'GET /console/{path}': told('A file of the page', file('text/javascript')),
  'GET /openapi.json': told('This description'),
  'GET /health': told('Does the process answer'),
  'GET /readyz': told('May it be sent new runs', one(), { refusals: [503] }),
  'GET /ok': told("LangGraph's question whether it answers"),
  'GET /info': told('Version and flags'),
  'GET /metrics': told('Figures for Prometheus; administrators', file('text/plain')),

  [`POST ${AUTH}/login/local`]: told('Sign in: sets the cookies of a session', one(), { refusals: [401, 403, 429] }),
  [`POST ${AUTH}/register`]: told('Make an account and sign in', one(ref('User'), 201), { refusals: [403, 429] }),
  [`POST ${AUTH}/initialize`]: told('Make the first administrator and sign in', one(ref('User'), 201), {
    refusals: [403, 409, 429]
  }),
  [`POST ${AUTH}/logout`]: told('End the session'),
  [`POST ${AUTH}/change-password`]: told('Change the password, and with it end all other sessions', one(), {
    refusals: [429]
  }),
  [`GET ${AUTH}/me`]: told('Who is signed in', one(ref('User'))),
  [`GET ${AUTH}/setup-status`]: told('Is there an administrator yet; once a minute and address', one(), {
    refusals: [429]
  }),
  [`GET ${AUTH}/providers`]: told('Providers of sign-ins'),
  [`GET ${AUTH}/oauth/{provider}`]: told(
    'Sign in by a provider; not there yet',
    { 501: { schema: ref('Refusal') } },
    { refusals: [400] }
  ),
  [`GET ${AUTH}/callback/{provider}`]: told(
    'Where a provider sends back to; not there yet',
    { 501: { schema: ref('Refusal') } },
    { refusals: [400] }
  ),
  [`POST ${AUTH}/tokens`]: told('Make an API token: shown once', one(anObject, 201)),
  [`GET ${AUTH}/tokens`]: told('List the API tokens of the caller'),
  [`DELETE ${AUTH}/tokens/{token_id}`]: told('Revoke an API token; its streams end', success),
  [`POST ${AUTH}/invitations`]: told('Invite somebody; administrators', one(anObject, 201)),
  [`GET ${AUTH}/invitations`]: told('List invitations; administrators'),
  [`DELETE ${AUTH}/invitations/{invitation_id}`]: told('Take an invitation back; administrators', success),

  'POST /api/assistants': told('Make an assistant of a graph: its version 1', one(ref('Assistant')), {
    refusals: [404, 409]
  }),
  'POST /api/assistants/search': told('Find assistants; every graph has one of its own', one(listOf(ref('Assistant')))),
  'POST /api/assistants/count': told('Count assistants', one({ type: 'integer' })),
  [`GET ${A}`]: told('An assistant, by its id or by the name of its graph', one(ref('Assistant')), { refusals: [404] }),
  [`PATCH ${A}`]: told('Change an assistant: a new version is in force', one(ref('Assistant')), {
    refusals: [404, 409]
  }),
  [`DELETE ${A}`]: told('Delete an assistant, and its threads where `delete_threads` says so', one(listOf(text)), {
    refusals: [404, 409]
  }),
  [`POST ${A}/versions`]: told('Versions of an assistant, the newest first', one(listOf(anObject)), {
    refusals: [404]
  }),
  [`POST ${A}/latest`]: told('Put a version in force', one(ref('Assistant')), { refusals: [404] }),
  [`GET ${A}/graph`]: told('The drawing of its graph', one(anObject), { refusals: [404] }),
  [`GET ${A}/schemas`]: told('The schemas of its graph', one(anObject), { refusals: [404] }),
  [`GET ${A}/subgraphs`]: told('Schemas of the graphs inside of its graph', one(anObject), { refusals: [404] }),
  [`GET ${A}/subgraphs/{namespace}`]: told('The same below a namespace', one(anObject), { refusals: [404] }),

  'POST /api/threads': told(
    'Create a thread; an id that exists already is answered with its record',
    one(ref('Thread')),
    { refusals: [404] }
  ),
  'POST /api/threads/search': told('Find threads, the newest first', one(listOf(ref('Thread')))),
  [`GET ${T}`]: told('A thread with its state', one(ref('Thread'))),
  [`PATCH ${T}`]: told('Merge into the metadata of a thread', one(ref('Thread'))),
  [`DELETE ${T}`]: told('Delete a thread with all that belongs to it', success),
  [`GET ${T}/state`]: told('The newest state', one(ref('State'))),
  [`POST ${T}/state`]: told('Change the state; a title renames the thread', one(ref('State')), { refusals: [409] }),
  [`POST ${T}/state/checkpoint`]: told('The state at a checkpoint', one(ref('State'))),
  [`GET ${T}/state/{checkpoint_id}`]: told('The state at a checkpoint', one(ref('State'))),
  [`POST ${T}/history`]: told('States of the past, the newest first', one(listOf(ref('State')))),

  [`POST ${T}/runs`]: starts('Start a run in the background', one(ref('Run'))),
  [`POST ${T}/runs/stream`]: starts('Start a run and stream it', stream),
  [`POST ${T}/runs/wait`]: starts('Start a run and wait for its final values', one()),
  'POST /api/runs': starts('Start a run on a new thread, in the background', one(ref('Run'))),
  'POST /api/runs/stream': starts('Start a run on a new thread and stream it', stream),
  'POST /api/runs/wait': starts('Start a run on a new thread and wait for its final values', one()),
  [`GET ${T}/runs`]: told('Runs of a thread, the newest first', one(listOf(ref('Run')))),
  [`GET ${R}`]: told('A run', one(ref('Run'))),
  [`POST ${R}/cancel`]: told('Stop a run', { 202: null, 204: null }, { refusals: [409, 503] }),
  [`GET ${R}/join`]: joins('Join a run: as a stream, or wait for its final values', {
    200: { description: 'Events until `end`, or the final values where the caller accepts JSON alone', events: true }
  }),
  [`GET ${R}/stream`]: joins('Watch a run: from its first frame, after a cursor, or from a snapshot on'),
  [`POST ${R}/stream`]: told(
    'Stop a run if `action` says so, and watch it',
    { ...stream, ...nothing },
    { refusals: [409, 429, 503] }
  ),
  [`GET ${R}/frames/{n}`]: told('A frame that was too large for the stream, whole'),
  [`GET ${T}/messages`]: told('Messages of a thread over its runs', one(listOf(ref('RunEvent')))),
  [`GET ${T}/messages/page`]: told('Messages of a thread, page by page backwards'),
  [`GET ${R}/messages`]: told('Messages of a run', one(ref('MessagePage'))),
  'GET /api/runs/{run_id}/messages': told('Messages of a run whose thread is not known', one(ref('MessagePage'))),
  [`GET ${R}/events`]: told('Everything that is recorded of a run', one(listOf(ref('RunEvent')))),
  [`GET ${T}/token-usage`]: told('Tokens of a thread, by model and caller'),

  [`PUT ${R}/feedback`]: told("Give the caller's feedback on a run", one(ref('Feedback'))),
  [`POST ${R}/feedback`]: told('The same', one(ref('Feedback'))),
  [`DELETE ${R}/feedback`]: told("Take the caller's feedback back", success),
  [`GET ${R}/feedback`]: told("The caller's feedback on a run", one(listOf(ref('Feedback')))),
  [`GET ${R}/feedback/stats`]: told('How often it was rated, and how'),
  [`DELETE ${R}/feedback/{feedback_id}`]: told('Take one feedback back', success),
  'GET /api/runs/{run_id}/feedback': told('Feedback on a run whose thread is not known', one(listOf(ref('Feedback')))),

  [`POST ${T}/uploads`]: told('Upload files', one(), { refusals: [400, 413, 422], upload: true }),
  [`GET ${T}/uploads/list`]: told('List uploaded files'),
  [`GET ${T}/uploads/limits`]: told('How many and how large files may be'),
  [`DELETE ${T}/uploads/{filename}`]: told('Delete an uploaded file', success, { refusals: [400] }),
  [`GET ${T}/artifacts/{path}`]: told(
    'A file of the thread',
    {
      200: { type: 'application/octet-stream', schema: { type: 'string', format: 'binary' } },
      206: { type: 'application/octet-stream', schema: { type: 'string', format: 'binary' } }
    },
    { refusals: [400, 416, 429] }
  ),
  [`POST ${T}/suggestions`]: told('Questions that could be asked next', one(), { refusals: [429] }),
  'GET /api/suggestions/config': told('Are suggestions made, and how many'),

  'GET /api/models': told('Models that a run can name'),
  'GET /api/models/{model_name}': told('A model'),
  'GET /api/mcp/config': told('Tool servers; administrators. Secrets are masked'),
  'PUT /api/mcp/config': told('Replace the tool servers; administrators'),
  'PATCH /api/mcp/config': told('Turn a tool server on or off; administrators', one(), { refusals: [404] }),
  'POST /api/mcp/cache/reset': told('Connect all tool servers anew; administrators'),
  'GET /api/memory': told('What is remembered of the caller'),
  'POST /api/memory/reload': told('The same, read from the disk again'),
  'GET /api/memory/export': told('The same, to be kept elsewhere'),
  'DELETE /api/memory': told('Forget all of it'),
  'POST /api/memory/import': told('Take over what was kept elsewhere'),
  'POST /api/memory/facts': told('Remember a fact'),
  'PATCH /api/memory/facts/{fact_id}': told('Change a fact'),
  'DELETE /api/memory/facts/{fact_id}': told('Forget a fact'),
  'GET /api/memory/config': told('How memory is set up'),
  'GET /api/memory/status': told('Both at once'),
  'GET /api/skills': told('Skills'),
  'POST /api/skills/reload': told('Read the skills from the disk again; administrators'),
  'POST /api/skills/install': told('Install a skill from an archive of a thread; administrators', one(), {
    refusals: [404, 409]
  }),
  'GET /api/skills/custom': told('Skills that were installed here'),
  'GET /api/skills/custom/{skill_name}': told('An installed skill with its text'),
  'PUT /api/skills/custom/{skill_name}': told('Change the text of a skill; administrators'),
  'DELETE /api/skills/custom/{skill_name}': told('Remove a skill; administrators', success),
  'GET /api/skills/custom/{skill_name}/history': told('Earlier texts of a skill'),
  'POST /api/skills/custom/{skill_name}/rollback': told('Go back to an earlier text; administrators'),
  'GET /api/skills/{skill_name}': told('A skill'),
  'PUT /api/skills/{skill_name}': told('Turn a skill on or off; administrators'),
  'GET /api/features': told('What this installation offers beside conversations'),
  'GET /api/agents': told('Agents of users: none here'),
  'GET /api/channels': told('Channels: none here'),
  'GET /api/channels/providers': told('Providers of channels: none here'),
  'GET /api/channels/connections': told('Connections of channels: none here'),
  'GET /api/scheduled-tasks': told('Scheduled tasks: none here'),
  [`GET ${T}/goal`]: told('The goal of a thread: none here'),
  [`GET ${T}/scheduled-tasks`]: told('Scheduled tasks of a thread: none here'),
  [`GET ${R}/workspace-changes`]: told('Changes of a workspace: none here')
}

// --------------------------------------------------------------------------------------------------- events

const anything: JsonObject = {}
const message = ref('Message')

/** Events of a stream, in the order in which they are met. */
export const EVENTS: Readonly<Record<string, { summary: string; data: JsonObject; example: JsonObject[string] }>> = {
  metadata: {
    summary: 'First: which run it is, and the how manieth attempt',
    data: {
      type: 'object',
      properties: { run_id: text, thread_id: text, attempt: { type: 'integer' } },
      required: ['run_id', 'thread_id']
    },
    example: {
      run_id: '39e0af25-c16f-456e-8ce2-206b19c645bb',
      thread_id: '946f204b-19dc-48eb-bcc3-282b0d1c50ff',
      attempt: 1
    }
  },
  snapshot: {
    summary: 'With mode=snapshot, first: the state and the messages being written, as of its id',
    data: {
      type: 'object',
      properties: {
        run_id: text,
        thread_id: text,
        values: { type: ['object', 'null'] },
        partial: { type: 'array', items: message }
      },
      required: ['run_id', 'thread_id', 'values', 'partial']
    },
    example: { run_id: 'r', thread_id: 't', values: { messages: [] }, partial: [] }
  },
  values: { summary: 'The whole state, after each step', data: anObject, example: { messages: [] } },
  messages: {
    summary: 'A piece of a message, or a message that comes whole, and where it comes from',
    data: { type: 'array', prefixItems: [message, anObject], minItems: 2 },
    example: [{ content: 'Hello', type: 'AIMessageChunk', id: 'a1' }, { langgraph_node: 'agent' }]
  },
  'messages/metadata': {
    summary: 'With mode messages: what is known of a message before it comes',
    data: anObject,
    example: {}
  },
  'messages/partial': {
    summary: 'With mode messages: messages as far as they have come',
    data: { type: 'array', items: message },
    example: []
  },
  'messages/complete': {
    summary: 'With mode messages: messages that are whole',
    data: { type: 'array', items: message },
    example: []
  },
  updates: { summary: 'What a step has changed, by its name', data: anObject, example: { agent: { messages: [] } } },
  custom: { summary: 'Whatever the agent says beside its answer', data: anything, example: { percent: 50 } },
  tasks: { summary: 'Steps that begin and end', data: anObject, example: {} },
  checkpoints: { summary: 'States as they are stored', data: anObject, example: {} },
  debug: { summary: 'Both of them with more around', data: anObject, example: {} },
  gap: {
    summary: 'Frames are gone that were asked for; what follows begins with the final state',
    data: {
      type: 'object',
      properties: { code: { const: 'stream_replay_gap' }, run_id: text },
      required: ['code', 'run_id']
    },
    example: { code: 'stream_replay_gap', run_id: 'r' }
  },
  error: {
    summary: 'The run has failed; `end` follows',
    data: { type: 'object', properties: { message: text, name: text, error: text }, required: ['message', 'name'] },
    example: { error: 'DemoFailure', name: 'DemoFailure', message: 'The demo model was asked to fail, and does' }
  },
  end: { summary: 'Last, always', data: { type: 'null' }, example: null }
}

// --------------------------------------------------------------------------------------------------- schemas

const optional = (type: string): JsonObject => ({ type: [type, 'null'] })
const shaped = (required: Record<string, JsonObject>, more: Record<string, JsonObject> = {}): JsonObject => ({
  type: 'object',
  properties: { ...required, ...more },
  required: Object.keys(required)
})
const integer: JsonObject = { type: 'integer' }
const time: JsonObject = { type: 'string', format: 'date-time' }

export const SCHEMAS: Readonly<Record<string, JsonObject>> = {
  Refusal: shaped({
    detail: {
      oneOf: [
        text,
        shaped({ code: text, message: text }),
        listOf(shaped({ type: text, loc: listOf({ type: ['string', 'integer'] }), msg: text }))
      ]
    }
  }),
  User: shaped(
    { id: text, email: text, system_role: { enum: ['admin', 'user'] }, needs_setup: { type: 'boolean' } },
    { oauth_provider: optional('string') }
  ),
  Thread: shaped(
    {
      thread_id: text,
      status: { enum: ['idle', 'running', 'interrupted', 'error'] },
      created_at: time,
      updated_at: time,
      metadata: anObject,
      values: anObject
    },
    { interrupts: anObject }
  ),
  Assistant: shaped(
    {
      assistant_id: text,
      graph_id: text,
      name: text,
      version: integer,
      config: anObject,
      context: anObject,
      metadata: anObject,
      created_at: time,
      updated_at: time
    },
    { description: optional('string') }
  ),
  State: shaped(
    { values: anObject, next: listOf(text), metadata: anObject, checkpoint_id: text },
    { parent_checkpoint_id: optional('string'), created_at: time, tasks: listOf(anObject), checkpoint: anObject }
  ),
  Run: shaped(
    {
      run_id: text,
      thread_id: text,
      status: { enum: ['pending', 'running', 'success', 'error', 'timeout', 'interrupted'] },
      created_at: time,
      updated_at: time,
      metadata: anObject,
      total_tokens: integer
    },
    {
      assistant_id: optional('string'),
      error: optional('string'),
      stop_reason: optional('string'),
      follow_up_to_run_id: optional('string'),
      multitask_strategy: text,
      kwargs: anObject,
      total_input_tokens: integer,
      total_output_tokens: integer,
      llm_call_count: integer,
      message_count: integer
    }
  ),
  RunEvent: shaped({
    thread_id: text,
    run_id: text,
    seq: integer,
    event_type: text,
    category: text,
    content: anything,
    metadata: anObject,
    created_at: time
  }),
  MessagePage: shaped({ data: listOf(ref('RunEvent')), has_more: { type: 'boolean' } }),
  Feedback: shaped(
    { feedback_id: text, run_id: text, thread_id: text, rating: { enum: [1, -1] }, created_at: time },
    { message_id: optional('string'), comment: optional('string'), user_id: optional('string') }
  ),
  Message: shaped(
    { type: text, content: { type: ['string', 'array'] } },
    {
      id: optional('string'),
      name: optional('string'),
      tool_calls: listOf(anObject),
      tool_call_id: text,
      additional_kwargs: anObject,
      response_metadata: anObject
    }
  )
}
