// The events of a stream, each with its schema and an example. A test compares them with real streams.
import type { Json, JsonObject } from '../base/types.ts'
import { anObject, anything, arrayOf, int, mapOf, oneOf, openly, orNull, ref, shaped, text, time } from './answers.ts'

interface ToldEvent {
  readonly summary: string
  readonly data: JsonObject
  readonly example: Json
  /** It has no id: a stream cannot be resumed after it. */
  readonly isWithoutId?: true
}

const message = ref('Message')
const ids = { run_id: '39e0af25-c16f-456e-8ce2-206b19c645bb', thread_id: '946f204b-19dc-48eb-bcc3-282b0d1c50ff' }
const said = {
  content: 'Hello',
  additional_kwargs: {},
  response_metadata: {},
  type: 'human',
  name: null,
  id: '23f24e46-3e3b-4b3f-9d2a-0f6c8b5a7d11'
}
const answered = {
  type: 'ai',
  id: 'f1e20b23-71b8-4aa8-b999-cb9cca9d27ca',
  content: 'Hello to you',
  additional_kwargs: {},
  response_metadata: { finish_reason: 'stop', model_name: 'demo' },
  name: null,
  tool_calls: [],
  invalid_tool_calls: [],
  usage_metadata: { input_tokens: 3, output_tokens: 2, total_tokens: 5 }
}
const folders = {
  workspace_path: '/mnt/user-data/workspace',
  uploads_path: '/mnt/user-data/uploads',
  outputs_path: '/mnt/user-data/outputs'
}
const values = { messages: [said, answered], thread_data: folders, title: 'Hello' }
const stored = {
  metadata: { source: 'loop', step: 1, parents: {}, run_id: ids.run_id },
  next: [],
  values: { messages: [said, answered], thread_data: folders }
}
const config = openly({ configurable: anObject })
const checkpoint = openly(
  { values: anObject, metadata: anObject, next: arrayOf(text) },
  { config, parent_config: orNull(config), tasks: arrayOf(anObject) }
)
const task = openly(
  { id: text, name: text },
  {
    interrupts: arrayOf(openly({ value: anything })),
    input: anything,
    triggers: arrayOf(text),
    result: anything,
    error: anything
  }
)

/** In the order in which a reader meets them. */
export const EVENTS: Readonly<Record<string, ToldEvent>> = {
  metadata: {
    summary: 'Sent first: the run and its attempt number. In the stream of a thread also at the end of each run',
    data: {
      anyOf: [
        shaped({ run_id: text, thread_id: text, attempt: int }),
        // In the stream of a whole thread, between its runs.
        shaped({ status: oneOf('run_done'), run_id: text, thread_id: text })
      ]
    },
    example: { ...ids, attempt: 1 }
  },
  snapshot: {
    summary: 'Sent first with mode=snapshot: the state and the messages in progress, as of its id',
    data: shaped({ run_id: text, thread_id: text, values: orNull(ref('Values')), partial: arrayOf(message) }),
    example: { ...ids, values: { messages: [said], thread_data: folders, title: 'Hello' }, partial: [] }
  },
  values: { summary: 'The whole state after each step', data: ref('Values'), example: values },
  messages: {
    summary: 'A piece of a message or a complete message, with its metadata',
    data: ref('MessageTuple'),
    example: [{ content: 'Hello ', type: 'AIMessageChunk', id: answered.id }, { langgraph_node: 'agent' }]
  },
  'messages/metadata': {
    summary: 'With mode messages: metadata of a message before its first piece, by its id',
    data: mapOf(openly({ metadata: anObject })),
    example: { [answered.id]: { metadata: { langgraph_node: 'agent' } } },
    isWithoutId: true
  },
  'messages/partial': {
    summary: 'With mode messages: messages in progress, as far as they have arrived',
    data: arrayOf(message),
    example: [{ ...answered, content: 'Hello ', response_metadata: {}, usage_metadata: null }]
  },
  'messages/complete': {
    summary: 'With mode messages: complete messages',
    data: arrayOf(message),
    example: [answered]
  },
  updates: {
    summary: 'The changes of a step, by the name of its node',
    data: mapOf(anything),
    example: { agent: { messages: [answered] } }
  },
  custom: { summary: 'Custom data of the agent', data: anything, example: { percent: 50 } },
  tasks: {
    summary: 'Start and end of tasks',
    data: task,
    example: {
      id: '01a204b0-f554-7000-8b7f-86f9a2dea69d',
      name: 'agent',
      interrupts: [],
      result: { messages: [answered] }
    }
  },
  checkpoints: { summary: 'Checkpoints as they are stored', data: checkpoint, example: stored },
  debug: {
    summary: 'Tasks and checkpoints, with step and time',
    data: openly({ step: int, type: text, timestamp: time, payload: { anyOf: [checkpoint, task] } }),
    example: { step: 1, type: 'checkpoint', timestamp: '2026-11-22T19:17:15.758+00:00', payload: stored }
  },
  events: {
    summary: 'LangChain events of a graph, as its `streamEvents` emits them',
    data: openly({ event: text }, { name: text, run_id: text, data: anything }),
    example: {
      event: 'on_chain_end',
      name: 'LangGraph',
      run_id: ids.run_id,
      tags: [],
      metadata: {
        ...ids,
        assistant_id: '32c1e9a7-5f0b-5c8e-9d2f-4a1b6c7d8e90',
        graph_id: 'agent',
        user_id: '8c2f1c1e-6b1a-4f0e-9a53-2d8f6f0b7a11',
        created_by: 'system',
        run_attempt: 1,
        langgraph_version: '1.4.18',
        ls_integration: 'langgraph'
      },
      data: {
        output: {
          messages: [{ type: 'human', id: said.id, content: 'Hello', additional_kwargs: {}, response_metadata: {} }]
        }
      }
    }
  },
  tools: {
    summary: 'Start, progress, end and errors of a graph’s tools',
    data: openly({ event: text, name: text, toolCallId: text }),
    example: { event: 'on_tool_start', name: 'look', toolCallId: 'call_1', input: '{"city":"Rome"}' }
  },
  feedback: {
    summary: 'Where to PUT feedback on the run, for each of its `feedback_keys`',
    data: mapOf(text),
    example: { helpful: `/api/threads/${ids.thread_id}/runs/${ids.run_id}/feedback` }
  },
  gap: {
    summary: 'The requested frames are no longer stored; the stream continues with the final state',
    data: openly({ code: oneOf('stream_replay_gap'), run_id: text }),
    example: { code: 'stream_replay_gap', run_id: ids.run_id },
    isWithoutId: true
  },
  error: {
    summary: 'The run failed; `end` follows',
    data: shaped({ message: text, name: text }, { error: text }),
    example: { error: 'DemoFailure', name: 'DemoFailure', message: 'The demo model was asked to fail, and does' }
  },
  open: {
    summary: 'Many threads: the stream is open; a comment or an event comes at least every `heartbeat_ms`',
    data: shaped({ heartbeat_ms: int }),
    example: { heartbeat_ms: 5000 },
    isWithoutId: true
  },
  begun: {
    summary: 'Many threads: runs that have begun; frames of each follow',
    data: shaped({ runs: arrayOf(shaped({ run_id: text, thread_id: text })) }),
    example: { runs: [ids] }
  },
  run: {
    summary: 'Many threads: the first frame of this run follows',
    data: shaped({ run_id: text, thread_id: text }),
    example: ids,
    isWithoutId: true
  },
  thread: {
    summary: 'Many threads: this one has changed, or is gone; its title, status or list of runs may be new',
    data: shaped({ thread_id: text }),
    example: { thread_id: ids.thread_id },
    isWithoutId: true
  },
  resync: {
    summary:
      'Many threads: the cursor was too old, or no cursor. Load the list again, and these; the stream continues from now',
    data: shaped({ threads: arrayOf(text) }),
    example: { threads: [] }
  },
  end: { summary: 'Always the last event', data: { type: 'null' }, example: null, isWithoutId: true }
}

/** The name of an event's schema, without the slash, which a $ref would take for a path. */
function eventName(event: string): string {
  return `Event_${event.replace('/', '_')}`
}

/** The data of an event is a line of JSON text. */
const asText = (data: JsonObject): JsonObject => ({
  type: 'string',
  contentMediaType: 'application/json',
  contentSchema: data
})

const cursor: JsonObject = {
  type: 'string',
  pattern: '^(@[0-9]+|([A-Za-z0-9_-]+:)?[0-9]+-[0-9]+)$',
  description:
    'Its cursor, <epoch>-<n>, for resuming after it; prefixed by the number of its run in the stream of a thread, by the id of its run in the stream of many; there, @<place> is the place in the list of begun runs'
}

/** Events of subgraphs, with stream_subgraphs. */
const INNER = 'Event_of_subgraph'
export const INNER_EVENT: JsonObject = {
  type: 'object',
  description: 'An event of a subgraph: the name of the event, followed by the namespace of the subgraph',
  properties: {
    event: { type: 'string', pattern: '^[a-z/]+\\|.+$' },
    data: { type: 'string', contentMediaType: 'application/json' },
    id: cursor
  },
  required: ['event', 'data'],
  examples: [{ event: 'updates|inner:7f3c', data: '{}', id: '1795375035467-2' }]
}

/** Schemas of all events by name, with an example each, and of any of them (`Event`). */
export function eventSchemas(): Record<string, JsonObject> {
  const entries = Object.entries(EVENTS).map(([event, { summary, data, example, isWithoutId }]) => {
    const schema: JsonObject = {
      type: 'object',
      description: summary,
      properties: { event: { const: event }, data: asText(data), ...(!isWithoutId && { id: cursor }) },
      required: ['event', 'data'],
      examples: [{ event, data: JSON.stringify(example), ...(!isWithoutId && { id: '1795375035467-2' }) }]
    }
    return [eventName(event), schema] as const
  })
  const schemas = { ...Object.fromEntries(entries), [INNER]: INNER_EVENT }
  return { Event: { oneOf: Object.keys(schemas).map(ref) }, ...schemas }
}
