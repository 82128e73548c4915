// A subscription to a thread: channels, namespaces, and a position.
import { createHash } from 'node:crypto'
import * as v from 'valibot'
import { bit, Kind } from '../../run/log/frame.ts'
import type { Filter } from '../../run/log/filter.ts'
import { CHANNELS, epochIn, type ProtocolEvent, seqIn } from './event.ts'

const CHANNELS_MAX = 64
const NAMESPACES_MAX = 64
const SEGMENTS_MAX = 16
const NAME_MAX = 256

const name = v.pipe(v.string(), v.maxLength(NAME_MAX))
const namespace = v.pipe(v.array(name), v.maxLength(SEGMENTS_MAX))
/** An event's seq, or its id, which adds the attempt: some of its events may have been lost in a crash. */
const position = v.pipe(
  v.union([v.pipe(v.number(), v.safeInteger(), v.minValue(0)), v.pipe(v.string(), v.maxLength(64))]),
  v.check((given) => seqIn(String(given)) !== null, 'Value error, must be the number of an event, or its id'),
  v.transform((given): Since => ({ seq: seqIn(String(given))!, epoch: epochIn(String(given)) }))
)
const whole = v.pipe(v.number(), v.safeInteger(), v.minValue(0))

/** The body of an event stream, or the parameters of a subscription. Unknown fields are ignored. */
export const subscriptionFields = {
  channels: v.pipe(v.array(name), v.minLength(1), v.maxLength(CHANNELS_MAX)),
  namespaces: v.nullish(v.pipe(v.array(namespace), v.maxLength(NAMESPACES_MAX))),
  depth: v.nullish(whole),
  since: v.nullish(position)
}
export const subscriptionParams = v.object(subscriptionFields)
export type SubscriptionParams = v.InferOutput<typeof subscriptionParams>

export function isChannel(given: string): boolean {
  return (CHANNELS as readonly string[]).includes(given) || /^custom:./.test(given)
}

/** A client's position: seq of the last event it got, and its attempt if known. */
export interface Since {
  readonly seq: number
  readonly epoch: number | null
}

/** A subscription's filter. */
export interface EventFilter {
  /** Short, and equal for equal filters: readers with the same key share bytes. */
  readonly key: string
  takes(event: ProtocolEvent): boolean
  /** Needs the states that values frames name. */
  readonly withValues: boolean
}

export function eventFilter(wanted: SubscriptionParams): EventFilter {
  return { key: digest(canonical(wanted)), takes: matcherOf(wanted), withValues: wanted.channels.includes('values') }
}

/** The union of filters. */
export function anyOf(filters: readonly EventFilter[]): EventFilter {
  const [only] = filters
  if (only && filters.length === 1) return only
  return {
    key: digest(
      filters
        .map(({ key }) => key)
        .sort()
        .join()
    ),
    takes: (event) => filters.some((one) => one.takes(event)),
    withValues: filters.some((one) => one.withValues)
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64')
}

function canonical({ channels, namespaces, depth }: SubscriptionParams): string {
  const places = namespaces?.length ? [...new Set(namespaces.map((one) => JSON.stringify(one)))].sort() : null
  return JSON.stringify([[...new Set(channels)].sort(), places, places ? (depth ?? null) : null])
}

function matcherOf({ channels, namespaces, depth }: SubscriptionParams): (event: ProtocolEvent) => boolean {
  const wanted = new Set(channels)
  const isSelected = ({ channel, name }: ProtocolEvent) =>
    wanted.has(channel) || (name !== null && wanted.has(`custom:${name}`))
  if (!namespaces?.length) return isSelected
  return (event) => isSelected(event) && namespaces.some((prefix) => isBelow(event.namespace, prefix, depth ?? null))
}

/** Whether a namespace is at most `depth` levels below `prefix`; null: at any depth. */
function isBelow(namespace: readonly string[], prefix: readonly string[], depth: number | null): boolean {
  if (prefix.length > namespace.length) return false
  if (depth !== null && namespace.length - prefix.length > depth) return false
  return prefix.every((segment, i) => isSegment(namespace[i]!, segment))
}

/** A segment without an id matches every id of its name. */
function isSegment(given: string, wanted: string): boolean {
  if (given === wanted) return true
  const end = given.indexOf(':')
  return end >= 0 && !wanted.includes(':') && given.slice(0, end) === wanted
}

const ALWAYS =
  bit(Kind.metadata) | bit(Kind.error) | bit(Kind.custom) | bit(Kind.extension) | bit(Kind.updates) | bit(Kind.tasks)
const FILTERS = [0, bit(Kind.values)].map(
  (values): Filter => ({ mask: ALWAYS | bit(Kind.messages) | values, accumulate: false })
)

/** The filter of the run log: values only if asked for. */
export function logFilter({ withValues }: EventFilter): Filter {
  return FILTERS[withValues ? 1 : 0]!
}
