// Descriptions and responses of each route: the half of the OpenAPI document that request schemas cannot give. A test
// fails on a route without an entry here, and on an entry without a route.
import type { JsonObject } from '../types.ts'
import {
  anObject,
  anything,
  integer,
  listOf,
  mapOf,
  oneOf,
  ref,
  selected,
  shaped,
  storeItem,
  text,
  yesNo
} from './openapi-schemas.ts'

export interface Answer {
  readonly description?: string
  readonly schema?: JsonObject
  /** Media type; JSON where nothing is said. */
  readonly type?: string
  /** It is a stream of events; beside the schema where the caller decides by what it accepts. */
  readonly events?: true
  /** Other forms of the same, by media type. */
  readonly also?: Readonly<Record<string, JsonObject>>
  /** Headers that say something of this answer, and what. */
  readonly headers?: Readonly<Record<string, string>>
}
export interface Told {
  readonly summary: string
  /** By status; null: without a body. */
  readonly answers: Readonly<Record<string, Answer | null>>
  /** Refusals beside those that the route's guards and schemas make. */
  readonly refusals?: readonly number[]
  /** Members of the query that the handler reads itself. */
  readonly query?: Readonly<Record<string, QueryMember>>
  readonly headers?: Readonly<Record<string, string>>
  readonly upload?: true
}
/** What a member of a query is for; with its schema where it is no text. */
export type QueryMember = string | { readonly description: string; readonly schema: JsonObject }

const one = (schema: JsonObject = anObject, status = 200): Told['answers'] => ({ [status]: { schema } })
const count: JsonObject = { ...integer, format: 'int64' }
const nothing: Told['answers'] = { 204: null }
const file = (type: string, ...others: string[]): Told['answers'] => ({
  200: {
    type,
    schema: { type: 'string' },
    also: Object.fromEntries(others.map((other) => [other, { type: 'string' }])),
    headers: { ETag: 'Of the content', 'Cache-Control': 'How long it may be kept' }
  },
  304: null
})
const paged = (schema: JsonObject): Told['answers'] => ({
  200: {
    schema,
    headers: {
      'X-Pagination-Total': 'How many there are',
      'X-Pagination-Next': 'The next offset, where there is more'
    }
  }
})
const stream: Told['answers'] = { 200: { description: 'Events until `end`', events: true } }
const success = one(ref('Success'))
const message = one(shaped({ message: text }))

const told = (
  summary: string,
  answers: Told['answers'] = one(),
  more: Omit<Told, 'summary' | 'answers'> = {}
): Told => ({
  summary,
  answers,
  ...more
})
/** Where a run that was started is found, for clients that read it from there. */
const places = { 'Content-Location': 'Path of the run', Location: 'Where its stream is joined, below /api' }
const withPlaces = (answers: Told['answers']): Told['answers'] =>
  Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, { ...answer, headers: places }]))

const starts = (summary: string, answers: Told['answers']): Told =>
  told(summary, withPlaces(answers), {
    refusals: [400, 404, 409, 429],
    headers: { 'Idempotency-Key': 'The same key and body are the same run, also after a restart' }
  })
const position = {
  last_event_id: 'Go on after this cursor, where Last-Event-ID cannot be set',
  stream_mode: {
    description: 'Modes, repeated or with commas: messages-tuple, values, updates, custom...',
    schema: listOf(text)
  },
  mode: { description: '`snapshot`: begin with how the run stands', schema: oneOf('snapshot') }
}
const joins = (summary: string, answers: Told['answers'] = stream): Told =>
  told(summary, answers, { refusals: [429], query: position, headers: { 'Last-Event-ID': 'Go on after this cursor' } })
const ranges = { Range: 'A part of it: bytes=0-1023', 'If-Range': 'Only if it is still the one with this ETag' }
/** The whole, or the part that a Range asks for. */
const partly = (type: string, schema: JsonObject, others: Answer['also'] = {}): Told['answers'] => ({
  200: { type, schema, also: others, headers: { ETag: 'Of the content', 'Accept-Ranges': 'bytes' } },
  206: { type, schema: {}, also: others, headers: { 'Content-Range': 'Which part of how much' } }
})
const binary: JsonObject = { type: 'string', format: 'binary' }
const absent = shaped({ enabled: yesNo })

const AUTH = '/api/v1/auth'
const T = '/api/threads/{thread_id}'
const R = `${T}/runs/{run_id}`
const A = '/api/assistants/{assistant_id}'

/** By `METHOD path`, as the API table has them. */
export const WORDS: Readonly<Record<string, Told>> = {
  'GET /': told('The page, for browsers; a few links, for who asks for JSON', {
    200: {
      schema: shaped({ service: text, openapi: text, docs: text, client: text }),
      also: { 'text/html': text },
      headers: { Vary: 'Accept' }
    },
    304: null
  }),
  'GET /docs': told('This description as a page: searched, tried, written out as calls', file('text/html')),
  'GET /colloquy.js': told('The client for browsers', file('text/javascript')),
  'GET /favicon.ico': told('The picture of the page', file('image/svg+xml')),
  'GET /console/sandbox': told('Where the page shows documents of agents', file('text/html')),
  'GET /console/{path}': told('A file of the page', file('text/javascript', 'text/css', 'image/svg+xml')),
  'GET /openapi.json': told(
    'This description',
    one({ type: 'object', additionalProperties: true, required: ['openapi', 'paths'] })
  ),
  'GET /health': told('Does the process answer', one(shaped({ status: oneOf('healthy'), service: text }))),
  'GET /readyz': told('May it be sent new runs', {
    200: { schema: shaped({ status: oneOf('ready') }) },
    503: {
      description: 'Not now',
      schema: shaped({ status: oneOf('not ready'), reason: text }),
      headers: { 'Retry-After': 'Seconds' }
    }
  }),
  'GET /ok': told("LangGraph's question whether it answers", one(shaped({ ok: yesNo }))),
  'GET /info': told(
    'Version and flags',
    one(shaped({ version: text, context: text, flags: { type: 'object', additionalProperties: yesNo } }))
  ),
  'GET /metrics': told('Figures for Prometheus; administrators', { 200: { type: 'text/plain', schema: text } }),

  'GET /metrics/hour': told(
    'Readings of the last hour in columns, from the first look on; administrators',
    one(shaped({ at: listOf({ type: 'number' }), values: mapOf(listOf({ type: ['number', 'null'] })) }))
  ),

  [`POST ${AUTH}/login/local`]: told(
    'Sign in: sets the cookies of a session',
    {
      200: {
        schema: shaped({ expires_in: integer, needs_setup: yesNo }),
        headers: { 'Set-Cookie': 'access_token, csrf_token' }
      }
    },
    { refusals: [401, 403, 429] }
  ),
  [`POST ${AUTH}/register`]: told('Make an account and sign in', one(ref('User'), 201), { refusals: [403, 429] }),
  [`POST ${AUTH}/initialize`]: told('Make the first administrator and sign in', one(ref('User'), 201), {
    refusals: [403, 409, 429]
  }),
  [`POST ${AUTH}/logout`]: told('End the session', message),
  [`POST ${AUTH}/sessions/end`]: told('End all other sessions of the caller, on whatever device', message),
  [`POST ${AUTH}/change-password`]: told(
    'Change the password, and with it end all other sessions',
    one(shaped({ message: text, tokens_revoked: integer, tokens_standing: integer })),
    {
      refusals: [429]
    }
  ),
  [`GET ${AUTH}/me`]: told('Who is signed in', one(ref('User'))),
  [`GET ${AUTH}/setup-status`]: told(
    'Is there an administrator yet; once a minute and address',
    one(shaped({ needs_setup: yesNo, registration_enabled: yesNo, registration: oneOf('open', 'invite', 'closed') })),
    {
      refusals: [429]
    }
  ),
  [`GET ${AUTH}/providers`]: told('Providers of sign-ins', one(shaped({ providers: listOf(anything) }))),
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
  [`POST ${AUTH}/tokens`]: told('Make an API token: shown once', one(ref('ApiToken'), 201), { refusals: [409] }),
  [`GET ${AUTH}/tokens`]: told('List the API tokens of the caller', one(shaped({ tokens: listOf(ref('ApiToken')) }))),
  [`DELETE ${AUTH}/tokens/{token_id}`]: told('Revoke an API token; its streams end', success),
  [`POST ${AUTH}/invitations`]: told('Invite somebody; administrators', one(ref('Invitation'), 201)),
  [`GET ${AUTH}/invitations`]: told(
    'List invitations; administrators',
    one(shaped({ invitations: listOf(ref('Invitation')) }))
  ),
  [`DELETE ${AUTH}/invitations/{invitation_id}`]: told('Take an invitation back; administrators', success),

  'POST /api/assistants': told('Make an assistant of a graph: its version 1', one(ref('Assistant')), {
    refusals: [404, 409]
  }),
  'POST /api/assistants/search': told(
    'Find assistants; every graph has one of its own',
    paged(listOf(selected('Assistant')))
  ),
  'POST /api/assistants/count': told('Count assistants', one(count)),
  [`GET ${A}`]: told('An assistant, by its id or by the name of its graph', one(ref('Assistant')), { refusals: [404] }),
  [`PATCH ${A}`]: told('Change an assistant: a new version is in force', one(ref('Assistant')), {
    refusals: [404, 409]
  }),
  [`DELETE ${A}`]: told('Delete an assistant, and its threads where `delete_threads` says so', one(listOf(text)), {
    refusals: [404, 409]
  }),
  [`POST ${A}/versions`]: told('Versions of an assistant, the newest first', one(listOf(ref('AssistantVersion'))), {
    refusals: [404]
  }),
  [`POST ${A}/latest`]: told('Put a version in force', one(ref('Assistant')), { refusals: [404] }),
  [`GET ${A}/graph`]: told('The drawing of its graph', one(ref('Drawing')), { refusals: [404] }),
  [`GET ${A}/schemas`]: told('The schemas of its graph', one(ref('GraphSchemas')), { refusals: [404] }),
  [`GET ${A}/subgraphs`]: told('Schemas of the graphs inside of its graph', one(mapOf(anObject)), { refusals: [404] }),
  [`GET ${A}/subgraphs/{namespace}`]: told('The same below a namespace', one(mapOf(anObject)), { refusals: [404] }),

  'POST /api/threads': told(
    'Create a thread; an id that exists already is answered with its record',
    one(ref('Thread')),
    { refusals: [400, 404, 409] }
  ),
  'POST /api/threads/search': told('Find threads, the newest first', paged(listOf(selected('Thread')))),
  'POST /api/threads/count': told('How many threads a search would find', one(count)),
  'POST /api/threads/prune': told(
    'Delete several threads, or all of their states but the newest',
    one(shaped({ pruned_count: integer })),
    {
      refusals: [404]
    }
  ),
  [`PATCH ${T}/state`]: told('Merge into the metadata of a thread', nothing),
  [`POST ${T}/copy`]: told('A new thread with the states of this one', one(ref('Thread')), { refusals: [404] }),
  [`GET ${T}`]: told('A thread with its state', one(ref('Thread'))),
  [`PATCH ${T}`]: told('Merge into the metadata of a thread', one(ref('Thread'))),
  [`DELETE ${T}`]: told('Delete a thread with all that belongs to it', success),
  [`GET ${T}/state`]: told('The newest state', one(selected('State'))),
  [`POST ${T}/state`]: told('Change the state; a title renames the thread', one(ref('State')), { refusals: [409] }),
  [`POST ${T}/state/checkpoint`]: told('The state at a checkpoint', one(selected('State'))),
  [`GET ${T}/state/{checkpoint_id}`]: told('The state at a checkpoint', one(selected('State'))),
  [`POST ${T}/history`]: told('States of the past, the newest first', one(listOf(selected('State')))),

  [`POST ${T}/runs`]: starts('Start a run in the background', one(ref('Run'))),
  [`POST ${T}/runs/stream`]: starts('Start a run and stream it', stream),
  [`POST ${T}/runs/wait`]: starts('Start a run and wait for its final values', one(ref('FinalValues'))),
  'POST /api/runs': starts('Start a run on a new thread, in the background', one(ref('Run'))),
  'POST /api/runs/stream': starts('Start a run on a new thread and stream it', stream),
  'POST /api/runs/wait': starts('Start a run on a new thread and wait for its final values', one(ref('FinalValues'))),
  'POST /api/runs/batch': told('Start runs, each on a new thread, in the background', one(listOf(ref('Run'))), {
    refusals: [404, 409, 429]
  }),
  'POST /api/runs/cancel': told('Stop runs: those that are named, or all of the caller’s in flight', nothing, {
    refusals: [404, 503]
  }),
  'GET /api/runs/{run_id}/stream': joins('Watch a run whose thread is not known', stream),
  [`DELETE ${R}`]: told('Remove a run; what was said in it stays the thread’s', nothing, { refusals: [404, 503] }),
  [`GET ${T}/runs`]: told('Runs of a thread, the newest first', one(listOf(selected('Run'))), {
    query: { select: { description: 'Members that are wanted, repeated or with commas', schema: listOf(text) } }
  }),
  [`GET ${R}`]: told('A run', one(ref('Run'))),
  [`POST ${R}/cancel`]: told('Stop a run', { 202: null, 204: null }, { refusals: [409, 503] }),
  [`GET ${R}/join`]: joins('Join a run: as a stream, or wait for its final values', {
    200: {
      description: 'Events until `end`, or the final values where the caller accepts JSON alone',
      events: true,
      schema: ref('FinalValues')
    }
  }),
  [`GET ${R}/stream`]: joins('Watch a run: from its first frame, after a cursor, or from a snapshot on'),
  [`POST ${R}/stream`]: told(
    'Stop a run if `action` says so, and watch it',
    { ...stream, ...nothing },
    { refusals: [409, 429, 503], query: position, headers: { 'Last-Event-ID': 'Go on after this cursor' } }
  ),
  [`GET ${T}/stream`]: told(
    "A thread's runs, one after the other: those in flight and to come, or from a position on",
    stream,
    {
      refusals: [429],
      query: { last_event_id: position.last_event_id, stream_mode: '`run_modes` (default) or `lifecycle`' },
      headers: { 'Last-Event-ID': 'Go on after this position; `-1`: from the first run' }
    }
  ),
  [`POST ${T}/commands`]: told(
    "A command of LangGraph's protocol v2; what it refuses is an answer with status 200",
    one(shaped({ type: oneOf('success', 'error') }, { id: integer, result: anObject, error: text, message: text })),
    { refusals: [429] }
  ),
  [`POST ${T}/stream/events`]: told(
    "A thread's events in LangGraph's protocol v2: all that were, then those to come",
    { 200: { type: 'text/event-stream', schema: text } },
    { refusals: [429], headers: { 'Last-Event-ID': 'Go on after this event' } }
  ),
  [`GET ${T}/stream/events`]: told(
    'The same over a WebSocket, with commands and subscriptions',
    { 101: null },
    { refusals: [426, 429] }
  ),
  [`GET ${R}/joiners`]: told(
    'Who watches a run, in the process that answers',
    one(
      shaped({
        joiners: listOf(
          shaped({ since: text, modes: listOf(text), next: { type: ['integer', 'null'] }, is_full: yesNo })
        )
      })
    )
  ),
  [`GET ${R}/frames/{n}`]: told(
    'A frame that was too large for the stream, whole',
    partly('application/json', anything),
    { refusals: [416], headers: ranges }
  ),
  [`GET ${T}/messages`]: told('Messages of a thread over its runs', one(listOf(ref('ThreadMessage')))),
  [`GET ${T}/messages/page`]: told('Messages of a thread, page by page backwards', one(ref('ThreadMessagePage'))),
  [`GET ${R}/messages`]: told('Messages of a run', one(ref('MessagePage'))),
  'GET /api/runs/{run_id}/messages': told('Messages of a run whose thread is not known', one(ref('MessagePage'))),
  [`GET ${R}/events`]: told('Everything that is recorded of a run', one(listOf(ref('RunEvent')))),
  [`GET ${T}/token-usage`]: told('Tokens of a thread, by model and caller', one(ref('TokenUsage'))),

  [`PUT ${R}/feedback`]: told("Give the caller's feedback on a run", one(ref('Feedback')), { refusals: [400] }),
  [`POST ${R}/feedback`]: told('The same', one(ref('Feedback')), { refusals: [400] }),
  [`DELETE ${R}/feedback`]: told("Take the caller's feedback back", success),
  [`GET ${R}/feedback`]: told("The caller's feedback on a run", one(listOf(ref('Feedback')))),
  [`GET ${R}/feedback/stats`]: told('How often it was rated, and how', one(ref('FeedbackStats'))),
  [`DELETE ${R}/feedback/{feedback_id}`]: told('Take one feedback back', success),
  'GET /api/runs/{run_id}/feedback': told('Feedback on a run whose thread is not known', one(listOf(ref('Feedback')))),

  [`POST ${T}/uploads`]: told(
    'Upload files',
    one(
      shaped({
        success: yesNo,
        files: listOf(ref('Upload')),
        message: text,
        skipped_files: listOf(anything)
      })
    ),
    { refusals: [400, 408, 413, 422, 429], upload: true }
  ),
  [`GET ${T}/uploads/list`]: told('List uploaded files', one(shaped({ files: listOf(ref('Upload')), count: integer }))),
  [`GET ${T}/uploads/limits`]: told(
    'How many and how large files may be',
    one(shaped({ max_files: integer, max_file_size: integer, max_total_size: integer, user_bytes: integer }))
  ),
  [`DELETE ${T}/uploads/{filename}`]: told('Delete an uploaded file', success, { refusals: [400] }),
  [`GET ${T}/artifacts/{path}`]: told('A file of the thread', partly('*/*', binary), {
    refusals: [400, 416, 429],
    headers: ranges
  }),
  [`POST ${T}/suggestions`]: told('Questions that could be asked next', one(shaped({ suggestions: listOf(text) })), {
    refusals: [429]
  }),
  'GET /api/suggestions/config': told(
    'Are suggestions made, and how many',
    one(shaped({ enabled: yesNo, max_suggestions: integer }))
  ),

  'GET /api/models': told(
    'Models that a run can name',
    one(shaped({ models: listOf(ref('Model')), token_usage: shaped({ enabled: yesNo }) }))
  ),
  'GET /api/models/{model_name}': told('A model', one(ref('Model'))),
  'GET /api/mcp/config': told(
    'Tool servers: their names and states; for administrators how they are reached as well, secrets masked',
    one(ref('ToolServers'))
  ),
  'PUT /api/mcp/config': told('Replace the tool servers; administrators', one(ref('ToolServers'))),
  'PATCH /api/mcp/config': told('Turn a tool server on or off; administrators', one(ref('ToolServers')), {
    refusals: [404]
  }),
  'POST /api/mcp/cache/reset': told('Connect all tool servers anew; administrators', one(ref('ToolServers'))),
  'GET /api/memory': told('What is remembered of the caller', one(ref('Memory'))),
  'POST /api/memory/reload': told('The same, read from the disk again', one(ref('Memory'))),
  'GET /api/memory/export': told('The same, to be kept elsewhere', one(ref('Memory'))),
  'DELETE /api/memory': told('Forget all of it', one(ref('Memory'))),
  'POST /api/memory/import': told('Take over what was kept elsewhere', one(ref('Memory'))),
  'POST /api/memory/facts': told('Remember a fact', one(ref('Memory'))),
  'PATCH /api/memory/facts/{fact_id}': told('Change a fact', one(ref('Memory'))),
  'DELETE /api/memory/facts/{fact_id}': told('Forget a fact', one(ref('Memory'))),
  'GET /api/memory/config': told('How memory is set up', one(ref('MemoryConfig'))),
  'GET /api/memory/status': told('Both at once', one(shaped({ config: ref('MemoryConfig'), data: ref('Memory') }))),
  'GET /api/skills': told('Skills', one(shaped({ skills: listOf(ref('Skill')) }))),
  'POST /api/skills/reload': told(
    'Read the skills from the disk again; administrators',
    one(shaped({ skills: listOf(ref('Skill')) }))
  ),
  'POST /api/skills/install': told(
    'Install a skill from an archive of a thread; administrators',
    one(shaped({ success: yesNo, skill_name: text, message: text })),
    {
      refusals: [404, 409]
    }
  ),
  'GET /api/skills/custom': told('Skills that were installed here', one(shaped({ skills: listOf(ref('Skill')) }))),
  'GET /api/skills/custom/{skill_name}': told('An installed skill with its text', one(ref('Skill'))),
  'PUT /api/skills/custom/{skill_name}': told('Change the text of a skill; administrators', one(ref('Skill'))),
  'DELETE /api/skills/custom/{skill_name}': told('Remove a skill; administrators', success),
  'GET /api/skills/custom/{skill_name}/history': told(
    'Earlier texts of a skill',
    one(shaped({ history: listOf(shaped({ edited_at: text, action: oneOf('edit', 'rollback'), content: text })) }))
  ),
  'POST /api/skills/custom/{skill_name}/rollback': told(
    'Go back to an earlier text; administrators',
    one(ref('Skill'))
  ),
  'GET /api/skills/{skill_name}': told('A skill', one(ref('Skill'))),
  'PUT /api/skills/{skill_name}': told('Turn a skill on or off; administrators', one(ref('Skill'))),
  'POST /api/runs/crons': told('Start runs again and again, each in a thread of its own', one(ref('Cron')), {
    refusals: [404, 409]
  }),
  [`POST ${T}/runs/crons`]: told('Start runs in a thread again and again', one(ref('Cron')), { refusals: [404, 409] }),
  'POST /api/runs/crons/search': told('Crons of the caller, the newest first', paged(listOf(selected('Cron')))),
  'POST /api/runs/crons/count': told('How many crons of the caller fit', one(integer)),
  'PATCH /api/runs/crons/{cron_id}': told('Change a cron; what is left out stays', one(ref('Cron'))),
  'DELETE /api/runs/crons/{cron_id}': told('Remove a cron; its runs stay', nothing),
  'PUT /api/store/items': told('Put an item of the caller under a namespace and a key', nothing, { refusals: [409] }),
  'GET /api/store/items': told(
    'An item, or null; the labels of its namespace with dots between them',
    one({ ...storeItem, type: ['object', 'null'] })
  ),
  'DELETE /api/store/items': told('Remove an item', nothing),
  'POST /api/store/items/search': told(
    'Items below a namespace that fit a filter, what was written last first',
    one(shaped({ items: listOf(ref('StoreItem')) }))
  ),
  'POST /api/store/namespaces': told(
    'Namespaces of the items of the caller',
    one(shaped({ namespaces: listOf(listOf(text)) }))
  ),
  'GET /api/features': told(
    'What this installation offers beside conversations',
    one({ type: 'object', additionalProperties: absent })
  ),
  'GET /api/agents': told('Agents of users: none here', one(shaped({ agents: listOf(anything) }))),
  'GET /api/channels': told('Channels: none here', one(shaped({ service_running: yesNo, channels: anObject }))),
  'GET /api/channels/providers': told(
    'Providers of channels: none here',
    one(shaped({ enabled: yesNo, providers: listOf(anything) }))
  ),
  'GET /api/channels/connections': told(
    'Connections of channels: none here',
    one(shaped({ connections: listOf(anything) }))
  ),
  'GET /api/scheduled-tasks': told('Scheduled tasks: none here', one(listOf(anything))),
  [`GET ${T}/goal`]: told('The goal of a thread: none here', one(shaped({ goal: { type: 'null' } }))),
  [`GET ${T}/scheduled-tasks`]: told('Scheduled tasks of a thread: none here', one(listOf(anything))),
  [`GET ${R}/workspace-changes`]: told(
    'Changes of a workspace: none here',
    one(
      shaped({
        available: yesNo,
        version: integer,
        summary: { type: 'object', additionalProperties: { type: ['integer', 'boolean'] } },
        files: listOf(anything),
        limits: anObject
      })
    )
  )
}

/** Parameters by name: what they mean wherever they stand. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  assistant_id: 'Id of an assistant, or the name of a graph whose own one is meant',
  delete_threads: 'Delete the threads that are listed under it as well',
  xray: 'Draw graphs inside of the graph: true, or how deep',
  recurse: 'Also the graphs inside of those',
  namespace: 'Of an item: its labels with dots between them; of a graph inside of the graph: the names of its nodes',
  key: 'Key of an item',
  refresh_ttl: 'Taken, and without effect: a ttl counts from the last write',
  cron_id: 'Id of a cron',
  subgraphs: 'With the states of graphs inside of the graph',
  thread_id: 'Id of a thread: letters, digits, - and _, at most 64',
  run_id: 'Id of a run',
  checkpoint_id: 'Id of a checkpoint, as states and histories have it',
  feedback_id: 'Id of a feedback',
  fact_id: 'Id of a fact',
  token_id: 'Id of an API token; not the token',
  invitation_id: 'Id of an invitation; not its secret',
  filename: 'Name of an uploaded file',
  model_name: 'Name of a configured model',
  skill_name: 'Name of a skill',
  provider: 'Name of a provider of sign-ins',
  n: 'Number of a frame in its run: the part of its cursor behind the dash',
  limit: 'At most so many',
  after: 'Those behind this time, in Unix seconds',
  offset: 'Leave out so many first',
  status: 'Those of this status alone',
  include: '`ttl`: also for how long it is kept',
  before_seq: 'Those before this event',
  after_seq: 'Those behind this event',
  event_types: 'Those of these types alone, with commas between',
  action: '`interrupt` keeps what the run has said, `rollback` takes it back',
  wait: 'Answer when the run has ended',
  download: 'As a file to be saved'
}
