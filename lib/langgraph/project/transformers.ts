// A graph's own stream transformers (`compile({ transformers })`): LangGraph's multiplexer runs them over the stream we read anyway. What
// they make is for readers of protocol v2 (`thread.extensions`); without such a graph nothing of this is loaded.
import { withTimeout } from '../../base/waiting.ts'
import type { CompiledGraph, GraphRunStream, LangGraph } from './library.ts'

/** What a transformer has pushed, or its final value. */
export interface Extension {
  readonly name: string
  readonly payload: unknown
  readonly namespace: readonly string[]
}

export interface GraphOptions {
  readonly streamMode: readonly string[]
  readonly subgraphs: boolean
  readonly [name: string]: unknown
}

/** A graph's stream as `options` ask for it; what its transformers make of it is emitted beside, the last of it after the last chunk. */
export async function streamOf(
  graph: CompiledGraph,
  { createGraphRunStream, STREAM_EVENTS_V3_MODES: promised }: LangGraph,
  input: unknown,
  options: GraphOptions,
  emit: (extension: Extension) => void
): Promise<AsyncIterable<unknown>> {
  const { streamTransformers = [] } = graph
  if (streamTransformers.length === 0 || !createGraphRunStream || !promised) return graph.stream(input, options)
  const unasked = promised.filter((mode) => !options.streamMode.includes(mode))
  const streamMode = [...options.streamMode, ...unasked]
  const chunks = await graph.stream(input, { ...options, subgraphs: true, streamMode })
  const all = tee(chunks, emit, (copy) => createGraphRunStream(copy, streamTransformers))
  return asked(all, options.subgraphs, unasked)
}

/** Without what only the transformers were promised, and in the form with or without subgraphs. */
async function* asked(
  chunks: AsyncIterable<unknown>,
  withSubgraphs: boolean,
  unasked: readonly string[]
): AsyncIterable<unknown> {
  for await (const chunk of chunks) {
    // With `subgraphs` each is a namespace, a mode and data.
    const [namespace, mode, data] = chunk as [readonly unknown[], string, unknown]
    if (unasked.includes(mode) || (namespace.length > 0 && !withSubgraphs)) continue
    yield withSubgraphs ? chunk : [mode, data]
  }
}

/** How long a final value may take after its run, in ms: a transformer that never gives it holds up nobody's end. */
const FINAL_MS = 10_000

async function* tee(
  chunks: AsyncIterable<unknown>,
  emit: (extension: Extension) => void,
  run: (copy: AsyncIterable<unknown>) => GraphRunStream
): AsyncIterable<unknown> {
  const copy = new TransformStream<unknown, unknown>(undefined, { highWaterMark: Number.POSITIVE_INFINITY })
  const writer = copy.writable.getWriter()
  // A transformer's failure is its own: the graph goes on, and its run ends as it ends.
  const extensions = emitAll(run(copy.readable), emit).catch(() => {})
  try {
    for await (const chunk of chunks) {
      await writer.write(chunk)
      yield chunk
    }
    await writer.close()
  } catch (error) {
    await writer.abort(error).catch(() => {})
    throw error
  }
  await withTimeout(extensions, FINAL_MS)
}

async function emitAll(run: GraphRunStream, emit: (extension: Extension) => void): Promise<void> {
  for await (const { method, params } of run)
    if (method.startsWith(PREFIX))
      emit({ name: method.slice(PREFIX.length), payload: params.data, namespace: params.namespace })
  for (const [name, value] of Object.entries(run.extensions))
    if (isPromise(value)) emit({ name, payload: await value, namespace: [] })
}

/** What a channel of a transformer is called among events. */
const PREFIX = 'custom:'

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
