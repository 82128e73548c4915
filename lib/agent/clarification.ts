// A question to the user as a tool message, for front ends that do not know interrupts: they recognise the tool name and show
// the text, or a form made of `artifact.human_input`.
import { randomUUID } from 'node:crypto'
import { type Json, isObject, type ToolCall, type ToolMessage } from '../base/types.ts'

const NAME = 'ask_clarification'

/** `value`: the interrupt's value, `{question, options}` or anything else. The answer replaces this message. */
export function clarificationOf(call: ToolCall, value: Json): ToolMessage {
  const { question, options } = asked(value)
  const id = randomUUID()
  return {
    type: 'tool',
    id,
    content: [question, ...(options.length ? [''] : []), ...options.map((one, at) => `  ${at + 1}. ${one}`)].join('\n'),
    additional_kwargs: {},
    response_metadata: {},
    name: NAME,
    tool_call_id: call.id,
    artifact: {
      human_input: {
        version: 1,
        kind: 'human_input_request',
        source: NAME,
        request_id: id,
        tool_call_id: call.id,
        clarification_type: 'missing_info',
        question,
        input_mode: options.length ? 'choice_with_other' : 'free_text',
        ...(options.length && {
          options: options.map((one, at) => ({ id: `option-${at + 1}`, label: one, value: one }))
        })
      }
    },
    status: 'success'
  }
}

function asked(value: Json): { question: string; options: string[] } {
  if (!isObject(value)) return { question: typeof value === 'string' ? value : JSON.stringify(value), options: [] }
  const { question, options } = value
  // Clients refuse a form with an empty option.
  const said = Array.isArray(options) ? options.filter((one) => typeof one === 'string' && one.trim() !== '') : []
  return { question: typeof question === 'string' ? question : JSON.stringify(value), options: said as string[] }
}
