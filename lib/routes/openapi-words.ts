// Descriptions and responses of each route: the half of the OpenAPI document that request schemas cannot give. A test
// fails on a route without an entry here, and on an entry without a route.
import type { JsonObject } from '../base/types.ts'
import type { Answers, QueryMember } from '../http/route.ts'
import {
  count,
  file,
  message,
  nothing,
  one,
  paged,
  partly,
  placed,
  position,
  ranged,
  repeatable,
  stream,
  success
} from './answers.ts'
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

export interface Told {
  readonly summary: string
  readonly answers: Answers
  /** Statuses besides those that follow from the route's guards and schemas (`refusalsOf` in openapi.ts). */
  readonly refusals?: readonly number[]
  /** Query parameters that the handler reads itself. */
  readonly query?: Readonly<Record<string, QueryMember>>
  readonly headers?: Readonly<Record<string, string>>
  readonly upload?: true
}
const skills = one(shaped({ skills: listOf(ref('Skill')) }))

const told = (
  summary: string,
  answers: Told['answers'] = one(),
  refusals: readonly number[] = [],
  more: Pick<Told, 'query' | 'headers' | 'upload'> = {}
): Told => ({ summary, answers, refusals, ...more })

const starts = (summary: string, answers: Told['answers']): Told =>
  told(summary, placed(answers), [404, 409], repeatable)
const joins = (summary: string, answers: Told['answers'] = stream): Told => told(summary, answers, [429], position)
const { headers: ranges } = ranged
const binary: JsonObject = { type: 'string', format: 'binary' }
const absent = shaped({ enabled: yesNo })

const AUTH = '/api/v1/auth'
const T = '/api/threads/{thread_id}'
const R = `${T}/runs/{run_id}`
const A = '/api/assistants/{assistant_id}'
const C = '/api/runs/crons'
const M = '/api/memory'
const S = '/api/skills'

/** By `METHOD path`, as the API table has them. */
export const WORDS: Readonly<Record<string, Told>> = {
  'GET /': told('The page in a browser; a few links as JSON', {
    200: {
      schema: shaped({ service: text, openapi: text, docs: text, client: text }),
      also: { 'text/html': text },
      headers: { Vary: 'Accept' }
    },
    304: null
  }),
  'GET /docs': told('This reference as a page: search it, try calls, copy them as code', file('text/html')),
  'GET /colloquy.js': told('The client library for browsers', file('text/javascript')),
  'GET /favicon.ico': told('The icon of the page', file('image/svg+xml')),
  'GET /console/diagrams.js': told('The optional library that draws diagrams; empty where it is not installed', {
    ...file('text/javascript'),
    204: null
  }),
  'GET /console/sandbox': told('The sandbox in which the page shows HTML documents of agents', file('text/html')),
  'GET /console/{path}': told('A file of the page', file('text/javascript', 'text/css', 'image/svg+xml')),
  'GET /openapi.json': told(
    'This reference as an OpenAPI document',
    one({ type: 'object', additionalProperties: true, required: ['openapi', 'paths'] })
  ),
  'GET /health': told('Liveness: the process answers', one(shaped({ status: oneOf('healthy'), service: text }))),
  'GET /readyz': told('Readiness: new runs can be started', {
    200: { schema: shaped({ status: oneOf('ready') }) },
    503: {
      description: 'Not ready',
      schema: shaped({ status: oneOf('not ready'), reason: text }),
      headers: { 'Retry-After': 'Seconds' }
    }
  }),
  'GET /ok': told('Health check of LangGraph’s tools', one(shaped({ ok: yesNo }))),
  'GET /info': told(
    'Version and flags',
    one(shaped({ version: text, commit: text, context: text, flags: { type: 'object', additionalProperties: yesNo } }))
  ),

  [`POST ${AUTH}/login/local`]: told(
    'Sign in; sets the session cookies',
    {
      200: {
        schema: shaped({ expires_in: integer, needs_setup: yesNo }),
        headers: { 'Set-Cookie': 'access_token, csrf_token' }
      }
    },
    [401]
  ),
  [`POST ${AUTH}/register`]: told('Create an account and sign in', one(ref('User'), 201)),
  [`POST ${AUTH}/initialize`]: told('Create the first administrator and sign in', one(ref('User'), 201), [409]),
  [`POST ${AUTH}/logout`]: told('Sign out', message),
  [`POST ${AUTH}/sessions/end`]: told('End all other sessions of the caller, on any device', message),
  [`POST ${AUTH}/change-password`]: told(
    'Change the password and end all other sessions',
    one(shaped({ message: text, tokens_revoked: integer, tokens_standing: integer }))
  ),
  [`GET ${AUTH}/me`]: told('The signed-in user', one(ref('User'))),
  [`GET ${AUTH}/setup-status`]: told(
    'Whether there is an administrator yet; limited to one request per minute and address',
    one(shaped({ needs_setup: yesNo, registration_enabled: yesNo, registration: oneOf('open', 'invite', 'closed') })),
    [429]
  ),
  [`GET ${AUTH}/providers`]: told('Sign-in providers', one(shaped({ providers: listOf(anything) }))),
  [`GET ${AUTH}/oauth/{provider}`]: told('Sign in with a provider; not implemented', {
    501: { schema: ref('Refusal') }
  }),
  [`GET ${AUTH}/callback/{provider}`]: told('Redirect target of a provider; not implemented', {
    501: { schema: ref('Refusal') }
  }),
  [`POST ${AUTH}/tokens`]: told('Create an API token; it is shown only once', one(ref('ApiToken'), 201), [409]),
  [`GET ${AUTH}/tokens`]: told('List the caller’s API tokens', one(shaped({ tokens: listOf(ref('ApiToken')) }))),
  [`DELETE ${AUTH}/tokens/{token_id}`]: told('Revoke an API token and end its streams', success),
  [`POST ${AUTH}/invitations`]: told('Create an invitation; administrators only', one(ref('Invitation'), 201)),
  [`GET ${AUTH}/invitations`]: told(
    'List invitations; administrators only',
    one(shaped({ invitations: listOf(ref('Invitation')) }))
  ),
  [`DELETE ${AUTH}/invitations/{invitation_id}`]: told('Revoke an invitation; administrators only', success),

  'POST /api/assistants': told('Create an assistant for a graph, at version 1', one(ref('Assistant')), [404, 409]),
  'POST /api/assistants/search': told(
    'Search assistants, including the default one of each graph',
    paged(listOf(selected('Assistant')))
  ),
  'POST /api/assistants/count': told('Count assistants', one(count)),
  [`GET ${A}`]: told('Get an assistant by its id, or by the name of its graph', one(ref('Assistant'))),
  [`PATCH ${A}`]: told('Update an assistant; this creates a new version', one(ref('Assistant')), [409]),
  [`DELETE ${A}`]: told('Delete an assistant, and its threads with `delete_threads`', one(listOf(text)), [409]),
  [`POST ${A}/versions`]: told('Versions of an assistant, newest first', one(listOf(ref('AssistantVersion')))),
  [`POST ${A}/latest`]: told('Select the active version of an assistant', one(ref('Assistant'))),
  [`GET ${A}/graph`]: told('Nodes and edges of its graph, for drawing', one(ref('Drawing'))),
  [`GET ${A}/schemas`]: told('JSON schemas of its graph', one(ref('GraphSchemas'))),
  [`GET ${A}/subgraphs`]: told('JSON schemas of its subgraphs', one(mapOf(anObject))),
  [`GET ${A}/subgraphs/{namespace}`]: told('JSON schemas of the subgraphs in a namespace', one(mapOf(anObject))),

  'POST /api/threads': told('Create a thread; an existing id returns that thread', one(ref('Thread')), [404, 409]),
  'POST /api/threads/search': told('Search threads, newest first', paged(listOf(selected('Thread')))),
  'POST /api/threads/count': told('Count the threads that a search would find', one(count)),
  'POST /api/threads/prune': told(
    'Delete several threads, or all but the newest state of each',
    one(shaped({ pruned_count: integer })),
    [404]
  ),
  [`PATCH ${T}/state`]: told('Merge into the metadata of a thread', nothing),
  [`POST ${T}/copy`]: told('Copy a thread with its states', one(ref('Thread'))),
  [`GET ${T}`]: told('A thread with its state', one(ref('Thread'))),
  [`PATCH ${T}`]: told('Merge into the metadata of a thread', one(ref('Thread'))),
  [`DELETE ${T}`]: told('Delete a thread with everything that belongs to it', success),
  [`GET ${T}/state`]: told('The newest state', one(selected('State'))),
  [`POST ${T}/state`]: told('Update the state; a title renames the thread', one(ref('State')), [409]),
  [`POST ${T}/state/checkpoint`]: told('The state at a checkpoint', one(selected('State'))),
  [`GET ${T}/state/{checkpoint_id}`]: told('The state at a checkpoint', one(selected('State'))),
  [`POST ${T}/history`]: told('Past states, newest first', one(listOf(selected('State')))),

  [`POST ${T}/runs`]: starts('Start a run in the background', one(ref('Run'))),
  [`POST ${T}/runs/stream`]: starts('Start a run and stream it', stream),
  [`POST ${T}/runs/wait`]: starts('Start a run and wait for its final values', one(ref('FinalValues'))),
  'POST /api/runs': starts('Start a run on a new thread, in the background', one(ref('Run'))),
  'POST /api/runs/stream': starts('Start a run on a new thread and stream it', stream),
  'POST /api/runs/wait': starts('Start a run on a new thread and wait for its final values', one(ref('FinalValues'))),
  'POST /api/runs/batch': told(
    'Start several runs in the background, each on a new thread',
    one(listOf(ref('Run'))),
    [404, 409]
  ),
  'POST /api/runs/cancel': told('Cancel runs by id, or all of the caller’s in flight', nothing, [404]),
  'GET /api/runs/{run_id}/stream': joins('Join a run without knowing its thread', stream),
  [`DELETE ${R}`]: told('Delete a run; its messages stay in the thread', nothing),
  [`GET ${T}/runs`]: told('Runs of a thread, newest first', one(listOf(selected('Run'))), [], {
    query: { select: { description: 'Fields to return, repeated or separated by commas', schema: listOf(text) } }
  }),
  [`GET ${R}`]: told('A run', one(ref('Run'))),
  [`POST ${R}/cancel`]: told('Cancel a run', { 202: null, 204: null }, [409]),
  [`POST ${R}/input`]: told(
    'Give a message to the agent at work: answered when the agent has taken it',
    nothing,
    [409]
  ),
  [`GET ${R}/join`]: joins('Join a run as a stream, or wait for its final values', {
    200: {
      description: 'Events until `end`, or the final values if the caller accepts only JSON',
      events: true,
      schema: ref('FinalValues')
    }
  }),
  [`GET ${R}/stream`]: joins('Join a run: from its first frame, after a cursor, or from a snapshot'),
  [`POST ${R}/stream`]: told('Join a run, after cancelling it with `action`', { ...stream, ...nothing }, [409, 429], {
    ...position
  }),
  'GET /api/stream': told(
    'The runs of many threads as one stream, and news of all threads; also over a WebSocket',
    { ...stream, 101: null },
    [404, 422, 429],
    {
      query: {
        threads: '`*` (default): runs in flight and all that begin; or up to 64 thread ids, separated by commas',
        cursor: 'Resume: ids of frames, separated by commas',
        last_event_id: 'The same',
        stream_mode: 'Only these modes'
      },
      headers: { 'Last-Event-ID': 'The same' }
    }
  ),
  [`GET ${T}/stream`]: told(
    'All runs of a thread as one stream: those in flight and later ones, or from a position',
    stream,
    [429],
    {
      query: { last_event_id: position.query.last_event_id, stream_mode: '`run_modes` (default) or `lifecycle`' },
      headers: { 'Last-Event-ID': 'Resume after this position; `-1`: from the first run' }
    }
  ),
  [`POST ${T}/commands`]: told(
    'A command of LangGraph’s protocol v2; errors of the protocol have status 200',
    one(shaped({ type: oneOf('success', 'error') }, { id: integer, result: anObject, error: text, message: text }))
  ),
  [`POST ${T}/stream/events`]: told(
    'All events of a thread in LangGraph’s protocol v2, past ones first',
    { 200: { type: 'text/event-stream', schema: text } },
    [],
    { headers: { 'Last-Event-ID': 'Resume after this event' } }
  ),
  [`GET ${T}/stream/events`]: told(
    'The same over a WebSocket, with commands and subscriptions',
    { 101: null },
    [426, 429]
  ),
  [`GET ${R}/joiners`]: told(
    'Readers of a run that are connected to this process',
    one(
      shaped({
        joiners: listOf(
          shaped({ since: text, modes: listOf(text), next: { type: ['integer', 'null'] }, is_full: yesNo })
        )
      })
    )
  ),
  [`GET ${R}/frames/{n}`]: told(
    'The whole of a frame that was cut because of its size',
    partly('application/json', anything),
    [416],
    { headers: ranges }
  ),
  [`GET ${T}/messages`]: told('Messages of a thread, across its runs', one(listOf(ref('ThreadMessage')))),
  [`GET ${T}/messages/page`]: told('Messages of a thread, paged backwards', one(ref('ThreadMessagePage'))),
  [`GET ${R}/messages`]: told('Messages of a run', one(ref('MessagePage'))),
  'GET /api/runs/{run_id}/messages': told('Messages of a run without knowing its thread', one(ref('MessagePage'))),
  [`GET ${R}/events`]: told('All recorded events of a run', one(listOf(ref('RunEvent')))),
  [`GET ${T}/token-usage`]: told('Token usage of a thread, by model and caller', one(ref('TokenUsage'))),

  [`PUT ${R}/feedback`]: told('Rate a run', one(ref('Feedback'))),
  [`POST ${R}/feedback`]: told('Rate a run', one(ref('Feedback'))),
  [`DELETE ${R}/feedback`]: told('Delete the caller’s feedback on a run', success),
  [`GET ${R}/feedback`]: told('The caller’s feedback on a run', one(listOf(ref('Feedback')))),
  [`GET ${R}/feedback/stats`]: told('Number of ratings of a run', one(ref('FeedbackStats'))),
  [`DELETE ${R}/feedback/{feedback_id}`]: told('Delete one feedback', success),
  'GET /api/runs/{run_id}/feedback': told('Feedback on a run without knowing its thread', one(listOf(ref('Feedback')))),

  [`POST ${T}/uploads`]: told(
    'Upload files',
    one(shaped({ success: yesNo, files: listOf(ref('Upload')), message: text, skipped_files: listOf(anything) })),
    [408, 413, 429],
    { upload: true }
  ),
  [`GET ${T}/uploads/list`]: told('List uploaded files', one(shaped({ files: listOf(ref('Upload')), count: integer }))),
  [`GET ${T}/uploads/limits`]: told(
    'Limits on the number and size of uploads',
    one(shaped({ max_files: integer, max_file_size: integer, max_total_size: integer, user_bytes: integer }))
  ),
  [`DELETE ${T}/uploads/{filename}`]: told('Delete an uploaded file', success),
  [`GET ${T}/artifacts/{path}`]: told('A file of the thread', partly('*/*', binary), [416, 429], { headers: ranges }),
  [`POST ${T}/suggestions`]: told('Suggest follow-up questions', one(shaped({ suggestions: listOf(text) }))),
  'GET /api/suggestions/config': told(
    'Whether suggestions are enabled, how many there are at most, and first questions for an empty conversation',
    one(shaped({ enabled: yesNo, max_suggestions: integer, starters: listOf(text) }))
  ),

  'GET /api/models': told(
    'List the configured models',
    one(shaped({ models: listOf(ref('Model')), token_usage: shaped({ enabled: yesNo }) }))
  ),
  'GET /api/models/{model_name}': told('A model', one(ref('Model'))),
  'GET /api/mcp/config': told(
    'Tool servers with their states; for administrators also their configuration, with secrets masked',
    one(ref('ToolServers'))
  ),
  'PUT /api/mcp/config': told('Replace the tool servers; administrators only', one(ref('ToolServers'))),
  'PATCH /api/mcp/config': told('Enable or disable a tool server; administrators only', one(ref('ToolServers')), [404]),
  'POST /api/mcp/cache/reset': told('Reconnect all tool servers; administrators only', one(ref('ToolServers'))),
  [`GET ${M}`]: told('The memory about the caller', one(ref('Memory'))),
  [`POST ${M}/reload`]: told('The same, read from disk again', one(ref('Memory'))),
  [`GET ${M}/export`]: told('Export the memory', one(ref('Memory'))),
  [`DELETE ${M}`]: told('Delete the memory', one(ref('Memory'))),
  [`POST ${M}/import`]: told('Import an exported memory', one(ref('Memory'))),
  [`POST ${M}/facts`]: told('Add a fact', one(ref('Memory'))),
  [`PATCH ${M}/facts/{fact_id}`]: told('Update a fact', one(ref('Memory'))),
  [`DELETE ${M}/facts/{fact_id}`]: told('Delete a fact', one(ref('Memory'))),
  [`GET ${M}/config`]: told('Configuration of the memory', one(ref('MemoryConfig'))),
  [`GET ${M}/status`]: told(
    'Configuration and content of the memory',
    one(shaped({ config: ref('MemoryConfig'), data: ref('Memory') }))
  ),
  [`GET ${S}`]: told('List skills', skills),
  [`POST ${S}/reload`]: told('List skills, read from disk again; administrators only', skills),
  [`POST ${S}/install`]: told(
    'Install a skill from an archive in a thread; administrators only',
    one(shaped({ success: yesNo, skill_name: text, message: text })),
    [404, 409]
  ),
  [`GET ${S}/custom`]: told('List the skills that were installed here', skills),
  [`GET ${S}/custom/{skill_name}`]: told('An installed skill with its text', one(ref('Skill'))),
  [`PUT ${S}/custom/{skill_name}`]: told('Edit the text of a skill; administrators only', one(ref('Skill'))),
  [`DELETE ${S}/custom/{skill_name}`]: told('Delete a skill; administrators only', success),
  [`GET ${S}/custom/{skill_name}/history`]: told(
    'Earlier texts of a skill',
    one(shaped({ history: listOf(shaped({ edited_at: text, action: oneOf('edit', 'rollback'), content: text })) }))
  ),
  [`POST ${S}/custom/{skill_name}/rollback`]: told(
    'Restore an earlier text of a skill; administrators only',
    one(ref('Skill'))
  ),
  [`GET ${S}/{skill_name}`]: told('A skill', one(ref('Skill'))),
  [`PUT ${S}/{skill_name}`]: told('Enable or disable a skill; administrators only', one(ref('Skill'))),
  [`POST ${C}`]: told('Create a cron whose runs each get a thread of their own', one(ref('Cron')), [404, 409]),
  [`POST ${T}/runs/crons`]: told('Create a cron for a thread', one(ref('Cron')), [409]),
  [`POST ${C}/search`]: told('Search the caller’s crons, newest first', paged(listOf(selected('Cron')))),
  [`POST ${C}/count`]: told('Count the caller’s crons', one(integer)),
  [`PATCH ${C}/{cron_id}`]: told('Update a cron; missing fields stay as they are', one(ref('Cron'))),
  [`DELETE ${C}/{cron_id}`]: told('Delete a cron; its runs stay', nothing),
  'PUT /api/store/items': told('Store an item of the caller under a namespace and a key', nothing, [409]),
  'GET /api/store/items': told(
    'An item, or null; the labels of its namespace are separated by dots',
    one({ ...storeItem, type: ['object', 'null'] })
  ),
  'DELETE /api/store/items': told('Delete an item', nothing),
  'POST /api/store/items/search': told(
    'Search items below a namespace with a filter, last written first',
    one(shaped({ items: listOf(ref('StoreItem')) }))
  ),
  'POST /api/store/namespaces': told(
    'Namespaces of the caller’s items',
    one(shaped({ namespaces: listOf(listOf(text)) }))
  ),
  'GET /api/features': told(
    'Optional features of this installation',
    one({ type: 'object', additionalProperties: absent })
  ),
  'GET /api/agents': told('Agents of users: always empty here', one(shaped({ agents: listOf(anything) }))),
  'GET /api/channels': told('Channels: always empty here', one(shaped({ service_running: yesNo, channels: anObject }))),
  'GET /api/channels/providers': told(
    'Providers of channels: always empty here',
    one(shaped({ enabled: yesNo, providers: listOf(anything) }))
  ),
  'GET /api/channels/connections': told(
    'Connections of channels: always empty here',
    one(shaped({ connections: listOf(anything) }))
  ),
  'GET /api/scheduled-tasks': told('Scheduled tasks: always empty here', one(listOf(anything))),
  [`GET ${T}/goal`]: told('The goal of a thread: always null here', one(shaped({ goal: { type: 'null' } }))),
  [`GET ${T}/scheduled-tasks`]: told('Scheduled tasks of a thread: always empty here', one(listOf(anything))),
  [`GET ${R}/workspace-changes`]: told(
    'Changes of a workspace: always empty here',
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

/** Descriptions of parameters by name, the same on every route. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  assistant_id: 'Id of an assistant, or the name of a graph for its default assistant',
  delete_threads: 'Also delete the threads of the assistant',
  xray: 'Include subgraphs: true, or how many levels',
  recurse: 'Also include subgraphs of subgraphs',
  namespace: 'Of an item: its labels, separated by dots. Of a subgraph: the names of its nodes',
  key: 'Key of an item',
  refresh_ttl: 'Accepted without effect: the TTL of an item counts from its last write',
  cron_id: 'Id of a cron',
  subgraphs: 'Include the states of subgraphs',
  thread_id: 'Id of a thread: letters, digits, - and _, at most 64',
  run_id: 'Id of a run',
  checkpoint_id: 'Id of a checkpoint, as in states and histories',
  feedback_id: 'Id of a feedback',
  fact_id: 'Id of a fact',
  token_id: 'Id of an API token, not the token itself',
  invitation_id: 'Id of an invitation, not its secret',
  filename: 'Name of an uploaded file',
  model_name: 'Name of a configured model',
  skill_name: 'Name of a skill',
  provider: 'Name of a sign-in provider',
  n: 'Number of a frame in its run: the part of its cursor after the dash',
  limit: 'Maximum number of results',
  after: 'Only samples after this time, in Unix seconds',
  offset: 'Number of results to skip',
  dead: 'Only jobs that have failed as often as they may',
  status: 'Only runs with this status',
  include: '`ttl`: include how long the thread is kept',
  before_seq: 'Only events before this one',
  after_seq: 'Only events after this one',
  event_types: 'Only events of these types, separated by commas',
  action: '`interrupt` keeps what the run has written so far, `rollback` undoes it',
  wait: 'Answer only when the run has ended',
  download: 'Send the file as an attachment'
}
