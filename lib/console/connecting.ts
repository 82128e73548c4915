// The notice of a lost connection.
import { useEffect, useState } from 'preact/hooks'
import type { Conversation } from './conversation.ts'
import { html } from './html.ts'

export function Connecting({ conversation }: { readonly conversation: Conversation }) {
  const { state, retryAt = 0, failures } = conversation.connection.value
  const isBroken = conversation.state.value === 'broken'
  // The first failure is not shown, because it usually recovers at once.
  const isLost = conversation.active.value !== null && failures > 1 && (state === 'waiting' || state === 'connecting')
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    if (!isLost) return
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [isLost])
  if (!isLost && !isBroken) return null
  const seconds = Math.max(0, Math.ceil((retryAt - now) / 1000))
  const lost = conversation.active.value
    ? 'The connection is lost. The answer goes on without it'
    : 'The connection is lost. Your message is not sent yet'
  const words = isBroken
    ? 'The server cannot be reached.'
    : state === 'waiting' && seconds > 0
      ? `${lost}; trying again in ${seconds} s.`
      : `${lost}. Trying again…`
  return html`<div class="lost" role="status">
    <span>${words}</span>
    <button class="link" onClick=${() => conversation.retryNow()}>Try now</button>
  </div>`
}
