// Spans for OpenTelemetry, by its API alone: which SDK records them, and where they go, is the operator's (`node --import ./telemetry.mjs`).
import type * as Otel from '@opentelemetry/api'
import type { Component } from './components.ts'
import type { Config } from '../config/config.ts'
import { optionalPeer } from '../base/optional-peer.ts'
import { recordSpans, type BeginSpan } from '../base/tracing.ts'
import { VERSION } from '../base/version.ts'

/** Records spans while the gateway runs. @throws Error when the package is missing */
export async function spansOf({ tracing }: Config): Promise<Component> {
  if (!tracing.spans) return {}
  const api = await optionalPeer(() => import('@opentelemetry/api'), 'tracing.spans', '@opentelemetry/api@1')
  return { start: () => recordSpans(beginBy(api)), stop: () => recordSpans(null) }
}

function beginBy({ trace, context, ROOT_CONTEXT, SpanStatusCode }: typeof Otel): BeginSpan {
  const tracer = trace.getTracer('colloquy', VERSION)
  return (name, attributes, parent) => {
    const [, traceId = '', spanId = '', flags = '0'] = parent?.traceparent.split('-') ?? []
    const remote = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
    // Within a request that the SDK has instrumented itself, its span is the parent.
    const around = trace.getSpan(context.active()) ? context.active() : ROOT_CONTEXT
    const given = Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null))
    const span = tracer.startSpan(
      name,
      // Those without a value were left out.
      { attributes: given as Otel.Attributes },
      parent ? trace.setSpanContext(ROOT_CONTEXT, remote) : around
    )
    const own = span.spanContext()
    const isKnown = trace.isSpanContextValid(own)
    const traceparent = `00-${own.traceId}-${own.spanId}-${own.traceFlags.toString(16).padStart(2, '0')}`
    return {
      // Without an SDK there is no span: what was there is passed on.
      trace: isKnown ? { ...parent, traceparent } : parent,
      end: (error) => {
        // No message: it may have what is nobody's.
        if (error !== null) span.setStatus({ code: SpanStatusCode.ERROR })
        if (error instanceof Error) span.setAttribute('error.type', error.name)
        span.end()
      }
    }
  }
}
