// Conversations of Open WebUI: node import-open-webui.mjs chat-export.json, from its settings, or from one chat's menu.
import { branchTo, convert, said } from './conversations.mjs'

/** Thoughts and calls of tools, which it folds in its answers. */
const FOLDED = /<details\b[^>]*\btype="[^"]*"[^>]*>[\s\S]*?<\/details>\s*/g

function messageOf({ role, content }) {
  if (typeof content !== 'string' || role === 'system') return []
  return said(role === 'user', role === 'user' ? content : content.replace(FOLDED, ''))
}

function branchOf({ history, messages = [] }) {
  if (!history) return messages
  return branchTo(history.currentId, new Map(Object.entries(history.messages)), ({ parentId }) => parentId)
}

convert((conversations) =>
  conversations.map(({ title, created_at, chat }) => ({
    title: title ?? chat.title,
    created_at: new Date((created_at ?? 0) * 1000).toISOString(),
    messages: branchOf(chat).flatMap(messageOf)
  }))
)
