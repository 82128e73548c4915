// Kinds of options: what each accepts, and its error message, which continues a sentence that starts with the option's
// path. null, as YAML reads an empty value, means the default.
import * as v from 'valibot'
import type { JsonObject } from '../types.ts'
import { isTree } from './tree.ts'

/** The parsed value of a section. */
type Section<Entries extends v.ObjectEntries> = v.GenericSchema<
  unknown,
  v.InferOutput<v.ObjectSchema<Entries, undefined>>
>

/** Options by name. A section that is missing is one of defaults alone. */
export function section<const Entries extends v.ObjectEntries>(entries: Entries): Section<Entries> {
  const inner = v.object(entries)
  // Every entry has a default, so {} is a valid input of every section; the type of a generic one cannot say so.
  return v.nullish(inner, {} as v.InferInput<typeof inner>) as Section<Entries>
}

/** A whole number. Texts of digits are taken too: they come from the environment. */
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

/** A number, whole or not. Texts of digits are taken too. */
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

/** A text that is not empty. */
export function text(fallback: string) {
  return v.nullish(filled(), fallback)
}

/** A text that is not empty and has no default. */
export function filled() {
  return v.pipe(v.string('must be a text'), v.minLength(1, 'must not be empty'))
}

/** A text that may be left out: then it is null. */
export function nullable() {
  return v.nullish(filled(), null)
}

/** A list of strings; a comma-separated string works too, for environment variables. */
export function texts() {
  const listed = v.pipe(v.unknown(), v.transform(listOf), v.array(v.string('must be a text'), 'must be a list'))
  return v.nullish(listed, [])
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

/** Any object, passed on as it is. */
export function requestOptions() {
  const named = v.record(v.string(), v.unknown(), 'must hold options by name')
  // YAML of the core schema makes what JSON makes.
  return v.pipe(
    named,
    v.transform((options) => options as JsonObject)
  )
}

/** An address that begins with http:// or https://, and has no default. */
export function webAddress() {
  return v.pipe(
    v.string('must be a text'),
    v.check(
      (address) => URL.canParse(address) && /^https?:/i.test(address),
      'must be an address that begins with http:// or https://'
    )
  )
}

/** Such an address, or null. */
export function url() {
  return v.nullish(webAddress(), null)
}

/** A file of somebody's that does what the words of an option do. */
export interface ModuleOption {
  readonly module: string
  /** Handed to it as they are. */
  readonly options: JsonObject
}

const moduleOption = v.object({ module: filled(), options: v.nullish(requestOptions(), {}) }, 'is missing')

/** One of some words, or a file of somebody's; has no default. */
export function oneOfOrModule<const Choices extends readonly string[]>(choices: Choices) {
  const words = v.picklist(choices, `must be one of ${choices.join(', ')}, or { module: <file> }`)
  type Value = Choices[number] | ModuleOption
  // One of the two takes every value, each with its own sentence for what is wrong.
  return v.lazy(
    (input): v.GenericSchema<unknown, Value> =>
      (isTree(input) ? moduleOption : words) as v.GenericSchema<unknown, Value>
  )
}

/** One of some words. */
export function choice<const Choices extends readonly string[]>(choices: Choices, fallback: Choices[number]) {
  return v.nullish(v.picklist(choices, `must be one of ${choices.join(', ')}`), fallback)
}
