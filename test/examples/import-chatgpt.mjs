// Conversations of ChatGPT: node import-chatgpt.mjs conversations.json, which is in the archive that it sends of one's data.
import { branchTo, convert, said } from './conversations.mjs'

/** What it thought, and what was told to tools, is no part of the conversation. */
const TEXTS = new Set(['text', 'multimodal_text'])

function textOf({ content_type, parts = [], text, language }) {
  if (content_type === 'code') return `\`\`\`${language === 'unknown' ? '' : (language ?? '')}\n${text}\n\`\`\``
  return TEXTS.has(content_type) ? parts.filter((part) => typeof part === 'string').join('\n\n') : ''
}

function messageOf({ message }) {
  const role = message?.author?.role
  const isSaid = role === 'user' || (role === 'assistant' && (message.recipient ?? 'all') === 'all')
  return isSaid && message.content ? said(role === 'user', textOf(message.content)) : []
}

convert((conversations) =>
  conversations.map(({ title, create_time, mapping, current_node }) => {
    const branch = branchTo(current_node, new Map(Object.entries(mapping)), ({ parent }) => parent)
    return { title, created_at: new Date(create_time * 1000).toISOString(), messages: branch.flatMap(messageOf) }
  })
)
