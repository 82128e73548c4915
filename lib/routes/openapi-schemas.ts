// JSON schemas of responses: the API's nouns by name. A test calls every route and fails on a member of a response that is not described.
import { JOB_KINDS, type JsonObject } from '../base/types.ts'
import { ACCOUNT_SCHEMAS } from './account-schemas.ts'
import {
  anObject,
  anything,
  arrayOf,
  int,
  mapOf,
  number,
  oneOf,
  openly,
  optionalText,
  optionalTime,
  orNull,
  ref,
  shaped,
  text,
  time,
  yesNo
} from './answers.ts'

const cron = shaped({
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
  namespace: arrayOf(text),
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
  version: int,
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
          { ...arrayOf(ref('Issue')), description: 'For validation errors' }
        ]
      }
    },
    { message: { type: 'string', description: 'The detail as one text, if it is not a text itself' } }
  ),
  Issue: shaped(
    { type: text, loc: arrayOf({ type: ['string', 'integer'] }), msg: text },
    { input: { description: 'The rejected value, if it is small and not a secret' }, ctx: anObject }
  ),
  Success: shaped({ success: yesNo }, { message: text }),
  ...ACCOUNT_SCHEMAS,

  Assistant: shaped({ ...assistantContent, updated_at: time }),
  AssistantVersion: shaped(assistantContent),
  Drawing: shaped({ nodes: arrayOf(openly({})), edges: arrayOf(openly({ source: text, target: text })) }),
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
      interrupts: { ...mapOf(arrayOf(interrupt)), description: 'Open interrupts by task' }
    },
    {
      state_updated_at: { ...time, description: 'For LangGraph’s clients' },
      ttl: shaped({ strategy: oneOf('delete'), ttl_minutes: number, expires_at: time }),
      extracted: { ...anObject, description: 'Values requested with `extract`, by alias' }
    }
  ),
  Values: {
    ...openly({}, { messages: arrayOf(ref('Message')), title: optionalText, thread_data: anObject }),
    description: 'The state of a thread; graphs define their own channels'
  },
  FinalValues: {
    ...openly(
      {},
      {
        messages: arrayOf(ref('Message')),
        __interrupt__: arrayOf(openly({ value: anything })),
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
      next: arrayOf(text),
      metadata: anObject,
      checkpoint: checkpointRef,
      checkpoint_id: text,
      parent_checkpoint_id: optionalText,
      parent_checkpoint: orNull(checkpointRef),
      created_at: time,
      tasks: arrayOf(openly({ id: text, name: text }, { interrupts: arrayOf(openly({ value: anything })) }))
    },
    { interrupts: arrayOf(interrupt) }
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
    total_tokens: int,
    total_input_tokens: int,
    total_output_tokens: int,
    llm_call_count: int,
    lead_agent_tokens: int,
    subagent_tokens: int,
    middleware_tokens: int,
    message_count: int
  }),
  RunEvent: shaped(runEvent),
  ThreadMessage: {
    ...shaped({ ...runEvent, feedback: orNull(givenFeedback) }),
    description: 'A message with its feedback'
  },
  MessagePage: shaped({ data: arrayOf(ref('RunEvent')), has_more: yesNo }),
  ThreadMessagePage: shaped({
    data: arrayOf(ref('ThreadMessage')),
    has_more: yesNo,
    next_before_seq: { type: ['integer', 'null'] }
  }),
  TokenUsage: shaped({
    thread_id: text,
    total_tokens: int,
    total_input_tokens: int,
    total_output_tokens: int,
    total_runs: int,
    by_model: mapOf(shaped({ tokens: int, runs: int })),
    by_caller: shaped({ lead_agent: int, subagent: int, middleware: int }),
    context_usage: orNull(shaped({ token_count: int, max_context_tokens: orNull(int), percentage: orNull(number) }))
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
  FeedbackStats: shaped({ run_id: text, total: int, positive: int, negative: int }),
  Message: openly(
    { type: text, content: { anyOf: [text, arrayOf({ anyOf: [text, anObject] })] } },
    {
      id: optionalText,
      name: optionalText,
      tool_calls: arrayOf(openly({ name: text, args: anObject, id: optionalText })),
      invalid_tool_calls: arrayOf(anObject),
      tool_call_id: text,
      artifact: anything,
      status: oneOf('success', 'error'),
      usage_metadata: orNull(openly({ input_tokens: int, output_tokens: int, total_tokens: int })),
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
              tool_call_chunks: arrayOf(
                openly({ index: int }, { id: optionalText, name: optionalText, args: optionalText })
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
    { filename: text, size: int, path: text, virtual_path: text, artifact_url: text },
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
    kind: oneOf(...JOB_KINDS),
    key: text,
    user_id: optionalText,
    thread_id: optionalText,
    due_at: { ...optionalTime, description: 'null: it has failed as often as it may' },
    attempts: int,
    last_error: optionalText,
    is_in_progress: yesNo
  }),
  JobCount: shaped({ kind: text, is_dead: yesNo, jobs: int }),
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
    facts: arrayOf(ref('MemoryFact'))
  }),
  MemoryContext: shaped({ summary: text, updatedAt: text }),
  MemoryFact: shaped({ id: text, content: text, category: text, confidence: number, createdAt: text, source: text }),
  MemoryConfig: shaped({
    enabled: yesNo,
    storage_path: optionalText,
    debounce_seconds: number,
    max_facts: int,
    fact_confidence_threshold: number,
    injection_enabled: yesNo,
    max_injection_tokens: int
  }),
  ToolServers: shaped({ mcp_servers: mapOf(ref('ToolServer')) }),
  ToolServer: shaped(
    {
      enabled: yesNo,
      type: oneOf('stdio', 'sse', 'http'),
      description: text,
      status: shaped(
        { state: oneOf('off', 'connecting', 'ready', 'failed') },
        { last_error: optionalText, tools: arrayOf(text) }
      )
    },
    {
      command: optionalText,
      args: arrayOf(text),
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
