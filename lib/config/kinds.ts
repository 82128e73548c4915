// Kinds of options: what each accepts, and its error message, which follows the option's path in a sentence. null, which
// is how YAML reads an empty value, means the default.
import { validateHeaderName, validateHeaderValue } from 'node:http'
import * as v from 'valibot'
import { networkOf } from '../base/networks.ts'
import type { JsonObject } from '../base/types.ts'
import { isTree } from './environment.ts'

type Section<Entries extends v.ObjectEntries> = v.GenericSchema<
  unknown,
  v.InferOutput<v.ObjectSchema<Entries, undefined>>
>

/** Options by name. A missing section has all defaults. */
export function section<const Entries extends v.ObjectEntries>(entries: Entries): Section<Entries> {
  const inner = v.object(entries)
  // Every entry has a default, so {} is a valid input of every section; the type of a generic one cannot say so.
  return v.nullish(inner, {} as v.InferInput<typeof inner>) as Section<Entries>
}

/** An integer. Numeric strings are accepted too: they come from the environment. */
export function whole(fallback: number, min: number, max = Number.MAX_SAFE_INTEGER) {
  return v.nullish(
    v.pipe(
      v.unknown(),
      v.transform(numberOf),
      v.number('must be a whole number'),
      v.integer('must be a whole number'),
      v.minValue(min, `must be at least ${min}`),
      v.maxValue(max, `must be at most ${max}`)
    ),
    fallback
  )
}

/** A number; numeric strings are accepted too. */
export function number(fallback: number, min: number, max = Number.MAX_SAFE_INTEGER) {
  return v.nullish(
    v.pipe(
      v.unknown(),
      v.transform(numberOf),
      v.number('must be a number'),
      v.minValue(min, `must be at least ${min}`),
      v.maxValue(max, `must be at most ${max}`)
    ),
    fallback
  )
}

function numberOf(value: unknown): unknown {
  return typeof value === 'string' && /^-?[0-9]+(\.[0-9]+)?$/.test(value) ? Number(value) : value
}

const YES: readonly unknown[] = ['true', 'yes', 'on', '1', 1]
const NO: readonly unknown[] = ['false', 'no', 'off', '0', 0]

/** A boolean, in all common spellings. */
export function flag(fallback: boolean) {
  return v.nullish(v.pipe(v.unknown(), v.transform(flagOf), v.boolean('must be true or false')), fallback)
}

function flagOf(value: unknown): unknown {
  const word = typeof value === 'string' ? value.toLowerCase() : value
  if (YES.includes(word)) return true
  return NO.includes(word) ? false : value
}

/** A non-empty string. */
export function text(fallback: string) {
  return v.nullish(filled(), fallback)
}

/** A non-empty string without a default. */
export function filled() {
  return v.pipe(v.string('must be a text'), v.minLength(1, 'must not be empty'))
}

/** What to listen on: a name or an address. One of version 6 may stand in brackets, as in a URL. */
export function host(fallback: string) {
  return v.pipe(
    text(fallback),
    v.transform((written) => /^\[(.+)\]$/.exec(written)?.[1] ?? written)
  )
}

/** A non-empty string, or null. */
export function nullable() {
  return v.nullish(filled(), null)
}

/** A list of strings; a comma-separated string works too, for environment variables. */
export function texts() {
  const listed = v.pipe(v.unknown(), v.transform(listOf), v.array(v.string('must be a text'), 'must be a list'))
  return v.nullish(listed, [])
}

/** Addresses and CIDR ranges. */
export function networks(fallback: string[]) {
  const network = v.pipe(
    v.string('must be a text'),
    v.check((entry) => networkOf(entry) !== null, 'must be an address or a range, as 10.0.0.0/8 or fd00::/8')
  )
  return v.nullish(v.array(network, 'must be a list'), fallback)
}

/** Origins: scheme, host and port, as browsers send them; and `*`, which is skipped with a warning. */
export function origins() {
  const origin = v.pipe(
    v.string('must be a text'),
    v.regex(
      /^(\*|[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+\/?)$/i,
      'must be an origin without a path, as https://chat.example.com or http://localhost:3000'
    )
  )
  return v.nullish(v.pipe(v.unknown(), v.transform(listOf), v.array(origin, 'must be a list')), [])
}

function listOf(value: unknown): unknown {
  const items: unknown = typeof value === 'string' ? value.split(',') : value
  if (!Array.isArray(items)) return items
  return items.map((item: unknown) => (typeof item === 'string' ? item.trim() : item)).filter((item) => item !== '')
}

export function requestOptions() {
  // YAML of the core schema makes what JSON makes.
  return v.pipe(
    // A list would be options of the names 0, 1...
    v.custom<Readonly<Record<string, unknown>>>(isTree, 'must hold options by name'),
    v.record(v.string(), v.unknown()),
    v.transform((options) => options as JsonObject)
  )
}

/** Headers by name, as they can be sent. */
export function headers() {
  const named = v.pipe(
    v.custom<Readonly<Record<string, unknown>>>(isTree, 'must hold headers by name'),
    v.record(v.string(), filled()),
    v.check((given) => Object.entries(given).every(isHeader), 'has a name or a value that no header can have')
  )
  return v.nullish(named, {})
}

function isHeader([name, value]: readonly [string, string]): boolean {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}

/** An http:// or https:// URL without a default. */
export function webAddress() {
  return v.pipe(
    v.string('must be a text'),
    v.check(
      (address) => URL.canParse(address) && /^https?:/i.test(address),
      'must be an address that begins with http:// or https://'
    )
  )
}

/** An http:// or https:// URL, or null. */
export function url() {
  return v.nullish(webAddress(), null)
}

/** A custom module in place of a built-in choice. */
export interface ModuleOption {
  readonly module: string
  /** Passed to it unchanged. */
  readonly options: JsonObject
}

const moduleOption = v.object({ module: filled(), options: v.nullish(requestOptions(), {}) }, 'is missing')

/** One of some words, or a custom module; has no default. */
export function oneOfOrModule<const Choices extends readonly string[]>(choices: Choices) {
  const words = v.picklist(choices, `must be one of ${choices.join(', ')}, or { module: <file> }`)
  type Value = Choices[number] | ModuleOption
  // Each value goes to one of the two, whose error message fits it.
  return v.lazy(
    (input): v.GenericSchema<unknown, Value> =>
      (isTree(input) ? moduleOption : words) as v.GenericSchema<unknown, Value>
  )
}

/** One of some words. */
export function choice<const Choices extends readonly string[]>(choices: Choices, fallback: Choices[number]) {
  return v.nullish(v.picklist(choices, `must be one of ${choices.join(', ')}`), fallback)
}
