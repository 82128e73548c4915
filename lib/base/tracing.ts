// Tracing: the context of a trace (W3C Trace Context), taken from requests, kept with their runs and passed to whoever is asked for them; and
// spans of our own, where the operator has them recorded.
import type { IncomingHttpHeaders } from 'node:http'
import { asRequest, asTraced, currentRequestId, currentTrace, type Trace } from './scope.ts'
import { isObject, type JsonObject } from './types.ts'

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-|$)/
const TRACEPARENT_MAX = 128
/** Longer ones may be dropped whole [Trace Context 3.3.1.5]. */
const TRACESTATE_MAX = 512

/** What a request belongs to; null: nothing that could be passed on. */
export function traceIn({ traceparent, tracestate }: IncomingHttpHeaders): Trace | null {
  if (typeof traceparent !== 'string' || traceparent.length > TRACEPARENT_MAX || !TRACEPARENT.test(traceparent))
    return null
  // Only version 00 is known: of a later one what it has in common with it.
  const known = `00-${traceparent.slice(3, 55)}`
  const hasState = typeof tracestate === 'string' && tracestate !== '' && tracestate.length <= TRACESTATE_MAX
  return { traceparent: known, ...(hasState && /^[\x20-\x7e]+$/.test(tracestate) && { tracestate }) }
}

/** What a run keeps of the request that made it: another process may begin it. */
export function originKept(): { origin?: JsonObject } {
  const [id, trace] = [currentRequestId(), currentTrace()]
  return id === null ? {} : { origin: { request_id: id, ...trace } }
}

/** Does `work` for a run as part of the request that made it. */
export function fromOrigin<T>({ kwargs: { origin } }: { readonly kwargs: JsonObject }, work: () => T): T {
  const { request_id, traceparent, tracestate } = isObject(origin) ? origin : {}
  const state = typeof tracestate === 'string' ? { tracestate } : {}
  const trace = typeof traceparent === 'string' ? { traceparent, ...state } : null
  return asRequest(typeof request_id === 'string' ? request_id : null, trace, work)
}

/** Headers for a request that is made in the course of what runs. */
export function traceHeaders(): Readonly<Record<string, string>> {
  const trace = currentTrace()
  return trace ? { ...trace } : {}
}

type Attributes = Readonly<Record<string, string | number | null>>

/** A span that was begun. */
interface Span {
  /** What requests made within it carry; null: nothing. */
  readonly trace: Trace | null
  /** @param error why it failed; null: it did not */
  end(error: unknown): void
}

/** Begins a span below `parent`; null: at the beginning of a trace. */
export type BeginSpan = (name: string, attributes: Attributes, parent: Trace | null) => Span

/** How spans are begun; null: none are recorded, and nothing of it is called. */
export const spans: { begin: BeginSpan | null } = { begin: null }

/** Spans are recorded from now on; null: no more. */
export function recordSpans(begin: BeginSpan | null): void {
  spans.begin = begin
}

/** Does `work` within a span, where spans are recorded. */
export async function inSpan<T>(name: string, attributes: Attributes, work: () => Promise<T>): Promise<T> {
  if (spans.begin === null) return work()
  const span = spans.begin(name, attributes, currentTrace())
  try {
    const result = await asTraced(span.trace, work)
    span.end(null)
    return result
  } catch (error) {
    span.end(error)
    throw error
  }
}
