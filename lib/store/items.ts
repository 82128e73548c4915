// Semantics of item searches, shared by all stores: which namespaces lie under a prefix, which values match a filter.
import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json, type JsonObject } from '../types.ts'
import type { Namespace, NamespaceQuery } from './store.ts'

/** Labels have no dots, so this is one to one. */
export function namespaceText(namespace: Namespace): string {
  return namespace.join('.')
}

export function namespaceOf(text: string): string[] {
  return text.split('.')
}

const OPERATORS: Readonly<Record<string, (value: Json | undefined, wanted: Json) => boolean>> = {
  $eq: isDeepStrictEqual,
  $ne: (value, wanted) => !isDeepStrictEqual(value, wanted),
  $gt: (value, wanted) => compared(value, wanted, (order) => order > 0),
  $gte: (value, wanted) => compared(value, wanted, (order) => order >= 0),
  $lt: (value, wanted) => compared(value, wanted, (order) => order < 0),
  $lte: (value, wanted) => compared(value, wanted, (order) => order <= 0),
  $in: isAmong,
  $nin: (value, wanted) => !isAmong(value, wanted)
}

/** True when every member of the filter matches the value's member of that name. */
export function matchesFilter(value: JsonObject, filter: JsonObject): boolean {
  return Object.entries(filter).every(([name, wanted]) =>
    fits(Object.hasOwn(value, name) ? value[name] : undefined, wanted)
  )
}

function fits(value: Json | undefined, wanted: Json): boolean {
  const names = isObject(wanted) ? Object.keys(wanted) : []
  // An object with only operators is a condition; anything else has to be equal.
  if (names.length === 0 || !names.every((name) => Object.hasOwn(OPERATORS, name)))
    return isDeepStrictEqual(value, wanted)
  // Only objects have members.
  return names.every((name) => OPERATORS[name]!(value, (wanted as JsonObject)[name]!))
}

function isAmong(value: Json | undefined, list: Json): boolean {
  return Array.isArray(list) && list.some((one) => isDeepStrictEqual(one, value))
}

/** Numbers compare with numbers and strings with strings; nothing else is ordered. */
function compared(value: Json | undefined, wanted: Json, isRight: (order: number) => boolean): boolean {
  if (typeof value === 'number' && typeof wanted === 'number') return isRight(value - wanted)
  if (typeof value !== 'string' || typeof wanted !== 'string') return false
  return isRight(value < wanted ? -1 : value > wanted ? 1 : 0)
}

export function pageOfNamespaces(all: Iterable<string>, query: NamespaceQuery): string[][] {
  const { prefix = [], suffix = [], maxDepth = Number.POSITIVE_INFINITY, limit, offset } = query
  const found = new Set<string>()
  for (const text of all) {
    const labels = namespaceOf(text)
    if (!fitsAt(labels, prefix, 0) || !fitsAt(labels, suffix, labels.length - suffix.length)) continue
    found.add(namespaceText(labels.slice(0, maxDepth)))
  }
  return [...found]
    .sort()
    .slice(offset, offset + limit)
    .map(namespaceOf)
}

function fitsAt(labels: readonly string[], pattern: Namespace, at: number): boolean {
  if (at < 0 || pattern.length > labels.length) return false
  return pattern.every((one, index) => one === '*' || one === labels[at + index])
}
