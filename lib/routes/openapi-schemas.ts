// JSON schemas of responses: the API's nouns by name, and helpers for the responses of single routes. A test calls every
// route and fails on a member of a response that is not described here.
import type { JsonObject } from '../base/types.ts'

export const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })
export const listOf = (items: JsonObject): JsonObject => ({ type: 'array', items })
export const orNull = (schema: JsonObject): JsonObject => ({ anyOf: [schema, { type: 'null' }] })
export const mapOf = (values: JsonObject): JsonObject => ({ type: 'object', additionalProperties: values })
export const oneOf = (...values: (string | number)[]): JsonObject => ({ enum: values })
/** An object with required and optional members. */
export const shaped = (required: Record<string, JsonObject>, more: Record<string, JsonObject> = {}): JsonObject => ({
  type: 'object',
  properties: { ...required, ...more },
  required: Object.keys(required)
})
/** A noun, or the members that `select` names. */
export const selected = (name: string): JsonObject => ({
  anyOf: [ref(name), { type: 'object', additionalProperties: true, description: 'With `select`: only those members' }]
})
/** An object that may have other members, from an agent or a graph. */
export const openly = (required: Record<string, JsonObject>, more: Record<string, JsonObject> = {}): JsonObject => ({
  ...shaped(required, more),
  additionalProperties: true
})

export const anything: JsonObject = {}
/** Any object: metadata, the state of a graph. */
export const anObject: JsonObject = { type: 'object', additionalProperties: true }
export const text: JsonObject = { type: 'string' }
export const integer: JsonObject = { type: 'integer' }
export const number: JsonObject = { type: 'number' }
export const yesNo: JsonObject = { type: 'boolean' }
export const time: JsonObject = { type: 'string', format: 'date-time' }
export const optionalText: JsonObject = { type: ['string', 'null'] }
const optionalTime: JsonObject = orNull(time)
export const cron = shaped({
  cron_id: text,
  user_id: text,
  assistant_id: optionalText,
  thread_id: optionalText,
  schedule: text,
  timezone: optionalText,
  payload: anObject,
  metadata: anObject,
  on_run_completed: oneOf('delete', 'keep'),
  enabled: yesNo,
  end_time: optionalTime,
  next_run_date: optionalTime,
  created_at: time,
  updated_at: time
})
export const storeItem = shaped({
  namespace: listOf(text),
  key: text,
  value: anObject,
  created_at: time,
  updated_at: time
})

const interrupt = shaped({ id: text, value: anything })
const checkpointRef = shaped(
  { thread_id: text, checkpoint_ns: text, checkpoint_id: optionalText },
  { id: text, ts: time, checkpoint_map: orNull(anObject) }
)
const runEvent = {
  thread_id: text,
  run_id: text,
  user_id: optionalText,
  seq: { type: 'integer', minimum: 1, description: 'Position in the thread; identifies the event in it' },
  event_type: {
    type: 'string',
    examples: ['human_message', 'ai_message', 'ai_tool_call', 'tool_result', 'llm_request']
  },
  category: oneOf('message', 'trace', 'lifecycle', 'middleware'),
  content: { description: 'A text, or the recorded JSON' },
  metadata: anObject,
  created_at: time
}
const givenFeedback = shaped({ feedback_id: text, rating: oneOf(1, -1), comment: optionalText })

const assistantContent = {
  assistant_id: text,
  graph_id: text,
  name: text,
  description: optionalText,
  version: integer,
  config: anObject,
  context: anObject,
  metadata: anObject,
  created_at: time
}

export const SCHEMAS: Readonly<Record<string, JsonObject>> = {
  Refusal: shaped(
    {
      detail: {
        anyOf: [
          text,
          { ...shaped({ code: text, message: text }), description: 'For authentication errors' },
          { ...listOf(ref('Issue')), description: 'For validation errors' }
        ]
      }
    },
    { message: { type: 'string', description: 'The detail as one text, if it is not a text itself' } }
  ),
  Issue: shaped(
    { type: text, loc: listOf({ type: ['string', 'integer'] }), msg: text },
    { input: { description: 'The rejected value, if it is small and not a secret' }, ctx: anObject }
  ),
  Success: shaped({ success: yesNo }, { message: text }),
  User: shaped(
    { id: text, email: text, system_role: oneOf('admin', 'user'), needs_setup: yesNo },
    { oauth_provider: optionalText }
  ),
  ApiToken: shaped(
    {
      token_id: text,
      name: text,
      scopes: listOf(text),
      created_at: time,
      expires_at: optionalTime,
      last_used_at: optionalTime
    },
    { token: { type: 'string', description: 'The secret; only in the response that creates it' } }
  ),
  Invitation: shaped(
    { invitation_id: text, name: text, created_at: time, expires_at: optionalTime },
    { invitation: { type: 'string', description: 'The secret; only in the response that creates it' } }
  ),

  Assistant: shaped({ ...assistantContent, updated_at: time }),
  AssistantVersion: shaped(assistantContent),
  Drawing: shaped({ nodes: listOf(openly({})), edges: listOf(openly({ source: text, target: text })) }),
  GraphSchemas: openly(
    {},
    {
      graph_id: text,
      input_schema: orNull(anObject),
      output_schema: orNull(anObject),
      state_schema: orNull(anObject),
      config_schema: orNull(anObject),
      context_schema: orNull(anObject)
    }
  ),
  Thread: shaped(
    {
      thread_id: text,
      status: oneOf('idle', 'running', 'busy', 'interrupted', 'error'),
      created_at: time,
      updated_at: time,
      metadata: anObject,
      values: ref('Values'),
      interrupts: { ...mapOf(listOf(interrupt)), description: 'Open interrupts by task' }
    },
    {
      state_updated_at: { ...time, description: 'For LangGraph’s clients' },
      ttl: shaped({ strategy: oneOf('delete'), ttl_minutes: number, expires_at: time }),
      extracted: { ...anObject, description: 'Values requested with `extract`, by alias' }
    }
  ),
  Values: {
    ...openly({}, { messages: listOf(ref('Message')), title: optionalText, thread_data: anObject }),
    description: 'The state of a thread; graphs define their own channels'
  },
  FinalValues: {
    ...openly(
      {},
      {
        messages: listOf(ref('Message')),
        __interrupt__: listOf(openly({ value: anything })),
        __error__: shaped({ error: text, message: text }),
        status: text,
        error: optionalText
      }
    ),
    description: 'The final state of a run, or `__error__`'
  },
  State: shaped(
    {
      values: { anyOf: [ref('Values'), anything] },
      next: listOf(text),
      metadata: anObject,
      checkpoint: checkpointRef,
      checkpoint_id: text,
      parent_checkpoint_id: optionalText,
      parent_checkpoint: orNull(checkpointRef),
      created_at: time,
      tasks: listOf(openly({ id: text, name: text }, { interrupts: listOf(openly({ value: anything })) }))
    },
    { interrupts: listOf(interrupt) }
  ),
  Run: shaped({
    run_id: text,
    thread_id: text,
    assistant_id: optionalText,
    status: oneOf('pending', 'running', 'success', 'error', 'timeout', 'interrupted'),
    multitask_strategy: oneOf('reject', 'interrupt', 'rollback', 'enqueue'),
    metadata: anObject,
    kwargs: anObject,
    error: optionalText,
    stop_reason: optionalText,
    follow_up_to_run_id: optionalText,
    created_at: time,
    updated_at: time,
    total_tokens: integer,
    total_input_tokens: integer,
    total_output_tokens: integer,
    llm_call_count: integer,
    lead_agent_tokens: integer,
    subagent_tokens: integer,
    middleware_tokens: integer,
    message_count: integer
  }),
  RunEvent: shaped(runEvent),
  ThreadMessage: {
    ...shaped({ ...runEvent, feedback: orNull(givenFeedback) }),
    description: 'A message with its feedback'
  },
  MessagePage: shaped({ data: listOf(ref('RunEvent')), has_more: yesNo }),
  ThreadMessagePage: shaped({
    data: listOf(ref('ThreadMessage')),
    has_more: yesNo,
    next_before_seq: { type: ['integer', 'null'] }
  }),
  TokenUsage: shaped({
    thread_id: text,
    total_tokens: integer,
    total_input_tokens: integer,
    total_output_tokens: integer,
    total_runs: integer,
    by_model: mapOf(shaped({ tokens: integer, runs: integer })),
    by_caller: shaped({ lead_agent: integer, subagent: integer, middleware: integer })
  }),
  Feedback: shaped({
    feedback_id: text,
    run_id: text,
    thread_id: text,
    user_id: optionalText,
    message_id: optionalText,
    rating: oneOf(1, -1),
    comment: optionalText,
    created_at: time
  }),
  FeedbackStats: shaped({ run_id: text, total: integer, positive: integer, negative: integer }),
  Message: openly(
    { type: text, content: { anyOf: [text, listOf({ anyOf: [text, anObject] })] } },
    {
      id: optionalText,
      name: optionalText,
      tool_calls: listOf(openly({ name: text, args: anObject, id: optionalText })),
      invalid_tool_calls: listOf(anObject),
      tool_call_id: text,
      artifact: anything,
      status: oneOf('success', 'error'),
      usage_metadata: orNull(openly({ input_tokens: integer, output_tokens: integer, total_tokens: integer })),
      additional_kwargs: anObject,
      response_metadata: anObject,
      run_id: text,
      feedback: orNull(givenFeedback)
    }
  ),

  MessageTuple: {
    type: 'array',
    prefixItems: [
      {
        anyOf: [
          ref('Message'),
          openly(
            { type: text, content: anything, id: text },
            {
              chunk_position: oneOf('last'),
              tool_call_chunks: listOf(
                openly({ index: integer }, { id: optionalText, name: optionalText, args: optionalText })
              )
            }
          )
        ]
      },
      openly({}, { langgraph_node: text })
    ],
    minItems: 2
  },

  Upload: shaped(
    { filename: text, size: integer, path: text, virtual_path: text, artifact_url: text },
    {
      original_filename: text,
      markdown_file: text,
      markdown_path: text,
      markdown_virtual_path: text,
      markdown_artifact_url: text,
      extension: text,
      modified: number
    }
  ),
  Job: shaped({
    kind: oneOf('webhook', 'turn', 'removal', 'departure'),
    key: text,
    user_id: optionalText,
    thread_id: optionalText,
    due_at: { ...optionalTime, description: 'null: it has failed as often as it may' },
    attempts: integer,
    last_error: optionalText,
    is_in_progress: yesNo
  }),
  JobCount: shaped({ kind: text, is_dead: yesNo, jobs: integer }),
  StoreItem: storeItem,
  Cron: cron,
  Model: shaped({
    name: text,
    model: text,
    display_name: optionalText,
    description: optionalText,
    supports_thinking: yesNo,
    supports_reasoning_effort: yesNo,
    continuation: { ...text, enum: ['prefix', 'ask', 'none'] }
  }),
  Memory: shaped({
    version: text,
    lastUpdated: text,
    user: mapOf(ref('MemoryContext')),
    history: mapOf(ref('MemoryContext')),
    facts: listOf(ref('MemoryFact'))
  }),
  MemoryContext: shaped({ summary: text, updatedAt: text }),
  MemoryFact: shaped({ id: text, content: text, category: text, confidence: number, createdAt: text, source: text }),
  MemoryConfig: shaped({
    enabled: yesNo,
    storage_path: optionalText,
    debounce_seconds: number,
    max_facts: integer,
    fact_confidence_threshold: number,
    injection_enabled: yesNo,
    max_injection_tokens: integer
  }),
  ToolServers: shaped({ mcp_servers: mapOf(ref('ToolServer')) }),
  ToolServer: shaped(
    {
      enabled: yesNo,
      type: oneOf('stdio', 'sse', 'http'),
      description: text,
      status: shaped(
        { state: oneOf('off', 'connecting', 'ready', 'failed') },
        { last_error: optionalText, tools: listOf(text) }
      )
    },
    {
      command: optionalText,
      args: listOf(text),
      env: mapOf(text),
      url: optionalText,
      headers: mapOf(text),
      oauth: orNull(anObject)
    }
  ),
  Skill: shaped(
    {
      name: text,
      description: text,
      license: optionalText,
      category: oneOf('public', 'custom'),
      enabled: yesNo,
      editable: yesNo
    },
    { content: { type: 'string', description: 'The text of an installed skill, when it is requested by name' } }
  )
}
