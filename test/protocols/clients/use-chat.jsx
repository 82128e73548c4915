// A page of somebody's with the AI SDK's hook in it, bundled by the test that shows it: a chat by its name in the address.
import { useChat } from '@ai-sdk/react'
import * as ai from 'ai'
import { createRoot } from 'react-dom/client'
import { exactFetch } from '../../../lib/client/ai-sdk.ts'

const query = new URLSearchParams(location.search)
const id = query.get('chat')
const api = '/api/ai/chat'
const path = `${api}/${encodeURIComponent(id)}`
const headers = () => ({ 'X-CSRF-Token': /csrf_token=([^;]+)/.exec(document.cookie)?.[1] ?? '' })
const body = () => (query.has('assistant') ? { assistant_id: query.get('assistant') } : {})

const TRANSPORTS = {
  http: () => new ai.DefaultChatTransport({ api, headers, body }),
  exact: () => new ai.DefaultChatTransport({ api, headers, body, fetch: exactFetch() }),
  /** Of version 7. */
  socket: () =>
    new ai.WebSocketChatTransport({ url: `${location.origin.replace('http', 'ws')}/api/ai/ws`, headers, body })
}

function Chat({ messages: before }) {
  const chat = useChat({
    id,
    messages: before,
    resume: true,
    transport: TRANSPORTS[query.get('transport')](),
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses
  })
  const { messages, status, error } = chat
  Object.assign(window, {
    say: (text) => void chat.sendMessage({ text }),
    again: (messageId) => void chat.regenerate(messageId && { messageId }),
    leave: () => void chat.stop(),
    stopRun: () => fetch(`${path}/stream`, { method: 'DELETE', headers: headers() }).then(({ status }) => status),
    decide: (approvalId, approved) => void chat.addToolApprovalResponse({ id: approvalId, approved })
  })
  return <main data-state={JSON.stringify({ status, error: error?.message ?? '', messages })} />
}

const answer = await fetch(path)
createRoot(document.getElementById('root')).render(<Chat messages={answer.ok ? await answer.json() : []} />)
