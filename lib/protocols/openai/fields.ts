// The fields of a request: those that are read, those that are accepted and change nothing, those that are refused and why. Anything else is
// refused by its name. README.md lists them.
import { Invalid } from '../../base/errors.ts'
import { issue } from '../../http/schema.ts'
import { refusedValue } from '../../routes/input.ts'
import type { Json, JsonObject } from '../../base/types.ts'

interface Fields {
  readonly read: readonly string[]
  /** Told again in the response where it has a place for them. */
  readonly ignored: readonly string[]
  /** With the values that are accepted because they ask for nothing. */
  readonly refused: Readonly<Record<string, { readonly why: string; readonly unless: readonly Json[] }>>
}

const SAMPLING = ['temperature', 'top_p', 'top_logprobs', 'parallel_tool_calls', 'service_tier', 'prompt_cache_key']
const CALLER = ['prompt_cache_retention', 'safety_identifier', 'user', 'verbosity']
const not = (why: string, ...unless: Json[]) => ({ why, unless: [null, ...unless] })

export const RESPONSE_FIELDS: Fields = {
  read: [
    'model',
    'input',
    'stream',
    'background',
    'previous_response_id',
    'conversation',
    'metadata',
    'tools',
    'tool_choice',
    'instructions',
    'text'
  ],
  ignored: [
    ...SAMPLING,
    ...CALLER,
    'include',
    'truncation',
    'reasoning',
    'max_output_tokens',
    'max_tool_calls',
    'stream_options',
    'context_management'
  ],
  refused: {
    store: not('every response is stored: delete it afterwards', true),
    prompt: not('prompts are not kept here: send instructions')
  }
}

export const COMPLETION_FIELDS: Fields = {
  read: ['model', 'messages', 'stream', 'stream_options', 'tools', 'tool_choice', 'response_format', 'metadata'],
  ignored: [
    ...SAMPLING,
    ...CALLER,
    'max_tokens',
    'max_completion_tokens',
    'frequency_penalty',
    'presence_penalty',
    'reasoning_effort',
    'seed',
    'store',
    'prediction'
  ],
  refused: {
    n: not('there is one answer', 1),
    stop: not('an agent ends its answer itself', []),
    logprobs: not('there are no probabilities', false),
    logit_bias: not('probabilities are not changed', {}),
    modalities: not('answers are text', ['text']),
    audio: not('answers are text'),
    functions: not('use tools', []),
    function_call: not('use tool_choice', 'auto', 'none'),
    web_search_options: not('the agent has tools of its own')
  }
}

/** @throws Invalid naming the first field that is refused or unknown */
export function checkFields(body: JsonObject, { read, ignored, refused }: Fields): void {
  for (const [name, value] of Object.entries(body)) {
    if (read.includes(name) || ignored.includes(name)) continue
    const rule = Object.hasOwn(refused, name) ? refused[name]! : null
    if (!rule) throw unknown(name.slice(0, 100))
    const isHarmless = rule.unless.some((one) => JSON.stringify(one) === JSON.stringify(value))
    if (!isHarmless) throw refusedValue(['body', name], `Unsupported parameter: '${name}': ${rule.why}`)
  }
}

function unknown(name: string): Invalid {
  return new Invalid([{ ...issue('extra_forbidden', ['body', name]), msg: `Unknown parameter: '${name}'` }])
}

/** What a response tells again of its request. */
export function echoOf(body: JsonObject): JsonObject {
  const told = [
    'temperature',
    'top_p',
    'parallel_tool_calls',
    'truncation',
    'max_output_tokens',
    'max_tool_calls',
    'reasoning',
    'service_tier',
    'user',
    'instructions',
    'tools',
    'tool_choice',
    'text'
  ]
  return Object.fromEntries(told.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])))
}
