// A thread as sent to clients: in the client's dialect, with its state if wanted, reduced to the requested fields.
import type { Call } from '../http/route.ts'
import { minutesIn } from '../jobs/removals.ts'
import type { Job } from '../store/store.ts'
import { threadView } from '../thread/checkpoint.ts'
import { isObject, type Json, type JsonObject, type Thread } from '../base/types.ts'
import { pick } from './page.ts'

/** The state of a thread, as far as it is shown. */
export interface ShownState {
  readonly json: string
  readonly interrupts: JsonObject
}

/** Lists show only the title of the state. */
export function titleState({ display_name }: Thread): ShownState {
  return { json: display_name === null ? '{}' : JSON.stringify({ title: display_name }), interrupts: {} }
}

/** As JSON text, with what the client's dialect shows of a thread. */
export function recordText(
  { dialect }: Pick<Call, 'dialect'>,
  thread: Thread,
  state: ShownState,
  removal: Job | null = null
): string {
  return threadView(thread, state.json, state.interrupts, {
    ...dialect.threadMembers(thread),
    ...(removal && ttlView(removal))
  })
}

function ttlView({ payload, due_at: expires_at }: Job): JsonObject | null {
  const ttl_minutes = minutesIn(payload)
  return ttl_minutes > 0 ? { ttl: { strategy: 'delete', ttl_minutes, expires_at } } : null
}

/** The selected members of a record, and the extracted values. */
export function partsOf(
  text: string,
  select: readonly string[] | null,
  extract: Readonly<Record<string, string>> | null
): string {
  if (!select && !extract) return text
  // Serialised from an object.
  const record = JSON.parse(text) as JsonObject
  const kept = select ? pick(record, select) : record
  const found = extract && Object.entries(extract).map(([alias, path]) => [alias, valueAt(record, path)])
  return JSON.stringify({ ...kept, ...(found && { extracted: Object.fromEntries(found) }) })
}

/** `values.messages[-1].content`: member names after dots, list indexes in brackets; negative ones count from the end. */
export const EXTRACT_PATH = /^[\w-]+(\.[\w-]+|\[-?\d{1,9}\])*$/

function valueAt(record: JsonObject, path: string): Json {
  let value: Json | undefined = record
  for (const [, name, place] of path.matchAll(/([\w-]+)|\[(-?\d+)\]/g)) {
    if (place !== undefined) value = Array.isArray(value) ? value.at(Number(place)) : undefined
    else value = isObject(value) && Object.hasOwn(value, name!) ? value[name!] : undefined
  }
  return value ?? null
}
