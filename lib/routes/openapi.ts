// The reference: the OpenAPI document of the whole table, and the route that serves it.
import { VERSION } from '../base/version.ts'
import { documentOf, type Reference } from '../http/openapi.ts'
import { basePathOf } from '../http/base-path.ts'
import { type Route, route } from '../http/route.ts'
import { one } from './answers.ts'
import { eventSchemas } from './openapi-events.ts'
import { SCHEMAS } from './openapi-schemas.ts'

/** Adds the route that serves the document, which is generated on the first request and kept. */
export function withOpenApi(routes: readonly Route[]): Route[] {
  let described: string | null = null
  const own = route({
    method: 'GET',
    path: '/openapi.json',
    access: 'public',
    rule: null,
    summary: 'This reference as an OpenAPI document',
    answers: one({ type: 'object', additionalProperties: true, required: ['openapi', 'paths'] }),
    handler: ({ req }) => {
      described ??= JSON.stringify(documentOf(all, REFERENCE))
      const url = basePathOf(req)
      const jsonText = url === '' ? described : described.replace(AT_ROOT, `"servers":${JSON.stringify([{ url }])}`)
      return { jsonText, headers: { 'Cache-Control': 'public, max-age=300' } }
    }
  })
  const all: Route[] = [...routes, own]
  return all
}

/** Where a server is that has no base path, in the text of the document. */
const AT_ROOT = '"servers":[{"url":"/"}]'

/** Descriptions of parameters by name, the same on every route. */
const PARAMETERS: Reference['parameters'] = {
  next: 'Where to go then: a path, or an address of a listed origin',
  assistant_id: 'Id of an assistant, or the name of a graph for its default assistant',
  delete_threads: 'Also delete the threads of the assistant',
  xray: 'Include subgraphs: true, or how many levels',
  recurse: 'Also include subgraphs of subgraphs',
  namespace: 'Of an item: its labels, separated by dots. Of a subgraph: the names of its nodes',
  key: 'Key of an item, or of a job',
  refresh_ttl: 'Accepted without effect: the TTL of an item counts from its last write',
  cron_id: 'Id of a cron',
  task_id: 'Id of a scheduled task',
  subgraphs: 'Include the states of subgraphs',
  thread_id: 'Id of a thread: letters, digits, - and _, at most 64',
  run_id: 'Id of a run',
  checkpoint_id: 'Id of a checkpoint, as in states and histories',
  feedback_id: 'Id of a feedback',
  fact_id: 'Id of a fact',
  token_id: 'Id of an API token, not the token itself',
  user_id: 'Id of an account',
  session_id: 'Id of a session, as its list has it',
  role: 'Only accounts with this role',
  disabled: 'Only accounts that are disabled, or only those that are not',
  since: 'Only what is since this time, or of this day (in UTC) and later',
  until: 'Only of this day (in UTC) and earlier',
  group_by: 'What sums are told apart by: some of day, user, agent and model, separated by commas; default all',
  format: 'json, or csv; default by the Accept header',
  before: 'Only lines older than this audit_id',
  invitation_id: 'Id of an invitation, not its secret',
  subscription_id: 'Id of a browser’s subscription, as it was answered and is listed',
  link_id: 'Id of a link, not its secret',
  hold_id: 'Id of a legal hold',
  kind: 'Kind of a job, as its list has it',
  reason: 'Why, for the audit',
  filename: 'Name of an uploaded file',
  model_name: 'Name of a configured model',
  skill_name: 'Name of a skill',
  name: 'Name that is looked for',
  agent_name: 'Name of a custom agent, in any case of its letters',
  provider: 'Name of a sign-in provider',
  id: 'What its client calls a chat: the id of a thread, or a name of its own',
  agent: 'Name of a graph, or id of an assistant',
  response_id: 'Id of a response: resp_ and the id of its run, without dashes',
  conversation_id: 'Id of a conversation: conv_ and the id of its thread, without dashes',
  item_id: 'Id of an item of a conversation',
  completion_id: 'Id of a completion',
  model: 'Name of a model',
  task: 'Id of a task: of the run that it began with',
  config: 'Id of a push notification configuration',
  n: 'Number of a frame in its run: the part of its cursor after the dash',
  from: 'Number of the first frame that is meant',
  limit: 'Maximum number of results',
  q: 'Words that are looked for; of the last one its beginning is enough',
  after: 'Only samples after this time, in Unix seconds',
  offset: 'Number of results to skip',
  agentId: 'Name of the agent whose threads are listed',
  includeArchived: 'Archived threads too',
  cursor: 'The `nextCursor` of the page before',
  dead: 'Only jobs that have failed as often as they may',
  status: 'Only runs with this status',
  include: '`ttl`: include how long the thread is kept',
  before_seq: 'Only events before this one',
  after_seq: 'Only events after this one',
  include_files: 'The changed files too, not their number alone',
  include_diff: 'With the differences of texts',
  event_types: 'Only events of these types, separated by commas',
  query: 'Part of an e-mail address',
  action:
    'Of a cancelled run: `interrupt` keeps what it has written so far, `rollback` undoes it. Of the audit: only these lines',
  wait: 'Answer only when the run has ended',
  download: 'Send the file as an attachment'
}

export const REFERENCE: Reference = {
  title: 'Colloquy',
  version: VERSION,
  description:
    'Threads, runs of an agent on them, and streams that can be joined, left and rejoined at the exact frame. With a session cookie, requests that change something must repeat the csrf_token cookie in X-CSRF-Token; with an API token they need not.',
  schemas: { ...SCHEMAS, ...eventSchemas() },
  parameters: PARAMETERS
}
