// OpenAI's API at /v1: responses, conversations, models and chat completions, with an API token as the key. A response is a run, a
// conversation is a thread; a stream is resumed by the number of its last event.
import { type Route, route } from '../../http/route.ts'
import { jsonObject } from '../../http/schema.ts'
import { anEvent, anObject, arrayOf, one, openly, repeatable, text as string } from '../../routes/answers.ts'
import type { Services } from '../../routes/services.ts'
import { throughDoor } from '../door.ts'
import { Completions } from './completions.ts'
import { Conversations } from './conversations.ts'
import { openaiErrors } from './errors.ts'
import { ModelRoutes } from './models.ts'
import { Responses } from './responses.ts'

/** Its objects say what they are. */
const NAMED = openly({ object: string }, { id: string, status: string, data: arrayOf(anObject) })
const ITEM = openly({ id: string, type: string }, { status: string })

export function openaiRoutes(services: Services): Route[] {
  const responses = new Responses(services)
  const conversations = new Conversations(services)
  const completions = new Completions(services)
  const models = new ModelRoutes(services)

  // The id in the path is none of ours as it is: handlers ask the rules about the thread behind it.
  const by = { rule: null, bodyLimit: services.config.server.body_bytes } as const
  const reading = { ...by, method: 'GET', permission: 'runs:read', refusals: [404], answers: one(NAMED) } as const
  const starting = { ...by, method: 'POST', permission: 'runs:create', body: jsonObject, isStream: true } as const
  const answered = { 200: { schema: NAMED, also: { 'text/event-stream': anEvent } } }
  const response = '/v1/responses/{response_id}'
  const conversation = '/v1/conversations/{conversation_id}'
  const writing = { ...by, permission: 'threads:write', refusals: [404, 409], answers: one(NAMED) } as const
  const looking = { ...reading, permission: 'threads:read' } as const
  const removing = {
    ...by,
    method: 'DELETE',
    permission: 'threads:delete',
    refusals: [404, 409],
    answers: one(NAMED)
  } as const
  const paged = {
    query: { limit: 'From 1 to 100', order: '`asc` or `desc`', after: 'The id of the item before the page' }
  }

  return throughDoor({ errors: openaiErrors, part: 'openai' }, [
    route({
      ...starting,
      path: '/v1/responses',
      summary: 'Create a response: a run, streamed, waited for, or in the background',
      answers: answered,
      refusals: [404, 409, 429],
      reads: repeatable,
      handler: (call) => responses.create(call)
    }),
    route({
      ...reading,
      path: response,
      isStream: true,
      summary: 'A response, or with `stream=true` its events after `starting_after`',
      answers: answered,
      refusals: [404, 429],
      reads: {
        query: { stream: '`true`: its events', starting_after: 'The `sequence_number` of the last event that is there' }
      },
      handler: (call) => responses.get(call)
    }),
    route({
      ...removing,
      path: response,
      summary: 'Delete a response; what it has said stays in its conversation',
      handler: (call) => responses.remove(call)
    }),
    route({
      ...by,
      method: 'POST',
      path: `${response}/cancel`,
      permission: 'runs:cancel',
      summary: 'Cancel a response',
      answers: one(NAMED),
      refusals: [404],
      handler: (call) => responses.cancel(call)
    }),
    route({
      ...reading,
      path: `${response}/input_items`,
      summary: 'The items of a response’s input',
      reads: paged,
      handler: (call) => responses.inputItems(call)
    }),
    route({
      ...writing,
      method: 'POST',
      path: '/v1/conversations',
      body: jsonObject,
      bodyOptional: true,
      summary: 'Create a conversation',
      handler: (call) => conversations.create(call)
    }),
    route({
      ...looking,
      path: conversation,
      summary: 'A conversation',
      handler: (call) => conversations.get(call)
    }),
    route({
      ...writing,
      method: 'POST',
      path: conversation,
      body: jsonObject,
      summary: 'Change the metadata of a conversation',
      handler: (call) => conversations.update(call)
    }),
    route({
      ...removing,
      path: conversation,
      summary: 'Delete a conversation with its responses',
      handler: (call) => conversations.remove(call)
    }),
    route({
      ...looking,
      path: `${conversation}/items`,
      summary: 'The items of a conversation',
      reads: paged,
      handler: (call) => conversations.items(call)
    }),
    route({
      ...writing,
      method: 'POST',
      path: `${conversation}/items`,
      body: jsonObject,
      summary: 'Add items to a conversation',
      handler: (call) => conversations.addItems(call)
    }),
    route({
      ...looking,
      path: `${conversation}/items/{item_id}`,
      summary: 'An item of a conversation',
      answers: one(ITEM),
      handler: (call) => conversations.item(call)
    }),
    route({
      ...removing,
      path: `${conversation}/items/{item_id}`,
      summary: 'Delete the message of an item',
      handler: (call) => conversations.removeItem(call)
    }),
    route({
      ...reading,
      path: '/v1/models',
      permission: 'any',
      summary: 'Models: assistants, and the configured models of the first one',
      handler: (call) => models.list(call)
    }),
    route({
      ...reading,
      path: '/v1/models/{model}',
      permission: 'any',
      summary: 'A model',
      handler: (call) => models.get(call)
    }),
    route({
      ...starting,
      path: '/v1/chat/completions',
      summary: 'A chat completion: a run on a thread that goes with it, or with `X-Thread-Id` on one that stays',
      answers: answered,
      reads: {
        headers: {
          'X-Thread-Id': 'Go on in this thread, which is made if it is not there',
          ...repeatable.headers
        }
      },
      refusals: [404, 409, 429],
      handler: (call) => completions.create(call)
    })
  ])
}
