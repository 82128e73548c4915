// Conversations of LibreChat: node import-librechat.mjs FILE..., each exported as JSON from its menu.
import { branchTo, convert, said } from './conversations.mjs'

/** In order, each with its parent; nested ones too. */
function flat(messages, parentMessageId) {
  return messages.flatMap(({ children = [], ...message }) => [
    { parentMessageId, ...message },
    ...flat(children, message.messageId)
  ])
}

function textOf({ text, content }) {
  if (text) return text
  const parts = (content ?? []).filter(({ type }) => type === 'text')
  return parts.map((part) => part.text?.value ?? part.text).join('\n\n')
}

function newest(messages) {
  return messages.reduce((one, other) => ((other.createdAt ?? '') >= (one.createdAt ?? '') ? other : one))
}

convert(({ title, messagesTree, messages }) => {
  const all = flat(messagesTree ?? messages ?? [], null)
  if (all.length === 0) return []
  const byId = new Map(all.map((message) => [message.messageId, message]))
  const branch = branchTo(newest(all).messageId, byId, ({ parentMessageId }) => parentMessageId)
  return [
    {
      title,
      created_at: all[0].createdAt ?? null,
      messages: branch.flatMap((message) => said(message.isCreatedByUser, textOf(message)))
    }
  ]
})
