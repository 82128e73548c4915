// Request schemas: valibot parts for bodies and queries, and how valibot's issues become the entries of a 422.
import * as v from 'valibot'
import { type Issue, Invalid } from '../base/errors.ts'
import { isObject, type Json, type JsonObject } from '../base/types.ts'

/** Where a rejected value came from: the first element of `loc`. */
export type Where = 'body' | 'query' | 'path'

/** Thread and run ids, over the whole text: they become file names and columns of 64 characters. */
export const ID_PATTERN = '^[A-Za-z0-9_-]{1,64}$'
const ID = new RegExp(ID_PATTERN)

export function isId(text: string): boolean {
  return ID.test(text)
}

// Messages by the issue type clients see.
const WORDS = {
  missing: 'Field required',
  string_type: 'Input should be a valid string',
  string_too_short: 'String should have at least {min_length} characters',
  string_too_long: 'String should have at most {max_length} characters',
  string_pattern_mismatch: "String should match pattern '{pattern}'",
  bool_type: 'Input should be a valid boolean',
  bool_parsing: 'Input should be a valid boolean, unable to interpret input',
  int_type: 'Input should be a valid integer',
  int_parsing: 'Input should be a valid integer, unable to parse string as an integer',
  int_parsing_size: 'Unable to parse input string as an integer, exceeded maximum size',
  int_from_float: 'Input should be a valid integer, got a number with a fractional part',
  float_type: 'Input should be a valid number',
  finite_number: 'Input should be a finite number',
  greater_than: 'Input should be greater than {gt}',
  greater_than_equal: 'Input should be greater than or equal to {ge}',
  less_than_equal: 'Input should be less than or equal to {le}',
  literal_error: 'Input should be {expected}',
  dict_type: 'Input should be a valid dictionary',
  list_type: 'Input should be a valid list',
  too_short: 'List should have at least {min_length} items',
  too_long: 'List should have at most {max_length} items',
  model_attributes_type: 'Input should be a valid dictionary or object to extract fields from',
  extra_forbidden: 'Extra inputs are not permitted',
  json_invalid: 'JSON decode error',
  value_error: 'Value error'
} as const
type IssueType = keyof typeof WORDS
type Context = Readonly<Record<string, string | number>>

/** One entry of a 422. `ctx` fills the names in the text of its type. */
export function issue(type: IssueType, loc: readonly (string | number)[], ctx?: Context): Issue {
  const msg = WORDS[type].replace(/\{(\w+)\}/g, (_whole, name: string) => String(ctx?.[name] ?? ''))
  return ctx === undefined ? { type, loc, msg } : { type, loc, msg, ctx }
}

export function badId(loc: readonly (string | number)[]): Issue {
  return issue('string_pattern_mismatch', loc, { pattern: ID_PATTERN })
}

// ------------------------------------------------------------------------------------------ schema parts

/** JSON Schema for rules that are code, for the OpenAPI description only. Goes to the end of a pipe. */
export function describedAs<Input = unknown>(schema: JsonObject) {
  return v.metadata<Input, { readonly schema: JsonObject }>({ schema })
}

function rangeOf({ min, max }: { readonly min?: number; readonly max?: number }): JsonObject {
  return { type: 'integer', minimum: min ?? Number.MIN_SAFE_INTEGER, maximum: max ?? Number.MAX_SAFE_INTEGER }
}

/** An integer in a body, within [min, max] and the safe range. Numeric strings are refused: JSON has numbers. */
export function integer(range: { readonly min?: number; readonly max?: number } = {}) {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, number>(({ dataset, addIssue, NEVER }) => {
      const { value } = dataset
      if (typeof value !== 'number')
        return refuse(addIssue, NEVER, typeof value === 'string' ? 'int_parsing' : 'int_type')
      if (!Number.isFinite(value)) return refuse(addIssue, NEVER, 'finite_number')
      if (!Number.isInteger(value)) return refuse(addIssue, NEVER, 'int_from_float')
      return Number.isSafeInteger(value) ? value : refuse(addIssue, NEVER, 'int_parsing_size')
    }),
    v.minValue(range.min ?? Number.MIN_SAFE_INTEGER),
    v.maxValue(range.max ?? Number.MAX_SAFE_INTEGER),
    describedAs<number>(rangeOf(range))
  )
}

/** A JSON object, not an array. Its members are neither copied nor checked. */
export const jsonObject = v.pipe(
  v.unknown(),
  v.rawTransform<unknown, JsonObject>(({ dataset, addIssue, NEVER }) => {
    if (isObject(dataset.value)) return dataset.value
    return refuse(addIssue, NEVER, 'dict_type')
  }),
  describedAs<JsonObject>({ type: 'object', additionalProperties: true })
)

export const json = v.pipe(
  v.unknown(),
  // JSON.parse makes nothing else.
  v.transform((value) => value as Json)
)

/** Refuses what is no object; valibot's own accept arrays. */
function asObject<Entries extends v.ObjectEntries>() {
  return v.rawTransform<unknown, v.InferInput<v.ObjectSchema<Entries, undefined>>>(({ dataset, addIssue, NEVER }) => {
    // It is an object; what is next in the pipe checks its entries.
    if (isObject(dataset.value)) return dataset.value as v.InferInput<v.ObjectSchema<Entries, undefined>>
    return refuse(addIssue, NEVER, 'dict_type')
  })
}

/** An object with these entries. Other keys are dropped. */
export function objectOf<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.pipe(v.unknown(), asObject<Entries>(), v.object(entries))
}

/** An object with these entries and no others: the body of a route of administration, where a misspelt wish must not be taken for done. */
export function closedObject<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.pipe(v.unknown(), asObject<Entries>(), v.strictObject(entries))
}

/** One of several objects. What fits none is compared with the one that it is most like, so that nobody is told what the others want. */
export function closestOf<const Options extends v.UnionOptions>(options: Options): v.UnionSchema<Options, undefined> {
  const union = v.union(options)
  const run: (typeof union)['~run'] = (dataset, config) => {
    const { value } = dataset
    const tried = options.map((option) => option['~run']({ value, typed: false }, config))
    const least = Math.min(...tried.map(({ issues }) => issues?.length ?? 0))
    const [first, ...others] = tried.filter(({ issues }) => (issues?.length ?? 0) === least)
    const issues = [first, ...others].flatMap((one) => one?.issues ?? [])
    // A branch of the union has made it, or it is refused.
    return (isFilled(issues) ? { value, typed: false, issues } : first) as ReturnType<(typeof union)['~run']>
  }
  return { ...union, '~run': run }
}

function isFilled<T>(list: readonly T[]): list is [T, ...T[]] {
  return list.length > 0
}

/** Minimum length in code points, not UTF-16 units. */
export function minCharacters(min: number) {
  return v.rawCheck<string>(({ dataset, addIssue }) => {
    if (dataset.typed && [...dataset.value.slice(0, 2 * min)].length < min)
      addIssue({ expected: 'string_too_short', received: String(min) })
  })
}

/** A list of at most `max` items; the count is checked first. */
export function listOf<const Item extends v.GenericSchema>(item: Item, max: number) {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, v.InferInput<Item>[]>(({ dataset, addIssue, NEVER }) => {
      // v.array, behind the count, checks the items.
      if (Array.isArray(dataset.value)) return dataset.value as v.InferInput<Item>[]
      return refuse(addIssue, NEVER, 'list_type')
    }),
    v.maxLength(max),
    v.array(item),
    describedAs<v.InferOutput<Item>[]>({ maxItems: max })
  )
}

export function isList(schema: v.GenericSchema): boolean {
  return 'pipe' in schema && Array.isArray(schema.pipe) && schema.pipe.some(({ type }) => type === 'array')
}

/** Keys of metadata: each is a term of the index. */
const METADATA_KEYS_MAX = 256
/** Maximum length as JSON: a page has the metadata of a thousand threads or runs. */
export const METADATA_LENGTH_MAX = 16 * 1024

/** A JSON object with at most `max` keys. */
export function fewKeys(max: number, lengthMax = Number.POSITIVE_INFINITY) {
  return v.pipe(
    jsonObject,
    v.check((object) => Object.keys(object).length <= max, `Value error, at most ${max} keys`),
    v.check((object) => isWithin(object, lengthMax), `Value error, at most ${lengthMax} characters of JSON`),
    describedAs<JsonObject>({ maxProperties: max })
  )
}

/** Whether a value's JSON has at most this many characters. */
export function isWithin(value: Json, lengthMax: number): boolean {
  return lengthMax === Number.POSITIVE_INFINITY || JSON.stringify(value).length <= lengthMax
}

export const metadata = fewKeys(METADATA_KEYS_MAX, METADATA_LENGTH_MAX)

export const id = v.pipe(v.string(), v.regex(ID))

/**
 * An integer in a query: decimal digits only, so `1e3`, `0x10`, `1.5` and digits of other scripts are refused.
 * Use as `v.optional(queryInteger({ min: 1, max: 200 }), '50')`.
 */
export function queryInteger(range: { readonly min?: number; readonly max?: number } = {}) {
  return v.pipe(
    v.string(),
    v.rawTransform<string, number>(({ dataset, addIssue, NEVER }) => {
      if (!/^[+-]?[0-9]+$/.test(dataset.value)) return refuse(addIssue, NEVER, 'int_parsing')
      const value = Number(dataset.value)
      return Number.isSafeInteger(value) ? value : refuse(addIssue, NEVER, 'int_parsing_size')
    }),
    v.minValue(range.min ?? Number.MIN_SAFE_INTEGER),
    v.maxValue(range.max ?? Number.MAX_SAFE_INTEGER),
    describedAs<number>(rangeOf(range))
  )
}

/** A boolean in a query: true, false, 1 or 0, in any case. Use as `v.optional(queryBoolean, 'false')`. */
export const queryBoolean = v.pipe(
  v.string(),
  v.rawTransform<string, boolean>(({ dataset, addIssue, NEVER }) => {
    const text = dataset.value.toLowerCase()
    if (text === 'true' || text === '1') return true
    if (text === 'false' || text === '0') return false
    return refuse(addIssue, NEVER, 'bool_parsing')
  }),
  describedAs<boolean>({ type: 'boolean' })
)

// valibot's `expected` carries the type of the entry from a part of ours to `entryOf`.
function refuse<Never>(addIssue: (info: { expected: IssueType }) => void, never: Never, type: IssueType): Never {
  addIssue({ expected: type })
  return never
}

// ------------------------------------------------------------------------------------------- to the wire

/** Entries of a 422. A body may have a hundred thousand mistakes. */
const ISSUES_MAX = 20

/**
 * The parsed value.
 * @throws Invalid with one entry per mistake
 */
export function check<Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
  where: Where
): v.InferOutput<Schema> {
  // Only the first mistake of a value is reported: its length before its pattern.
  const result = v.safeParse(schema, value, { abortPipeEarly: true })
  if (result.success) return result.output
  const entries = result.issues.flatMap(flatten).slice(0, ISSUES_MAX)
  throw new Invalid(entries.map((found) => entryOf(found, where)))
}

// A union only reports that no branch fits; its branches know why.
function flatten(found: v.BaseIssue<unknown>): v.BaseIssue<unknown>[] {
  if (found.issues === undefined) return [found]
  const path = found.path ?? []
  return found.issues
    .flatMap(flatten)
    .map((inner) => (inner.path === undefined && path.length > 0 ? withPath(inner, path) : inner))
}

function withPath(inner: v.BaseIssue<unknown>, path: readonly v.IssuePathItem[]): v.BaseIssue<unknown> {
  // The caller has checked that the path is not empty.
  return { ...inner, path: [...path] as [v.IssuePathItem, ...v.IssuePathItem[]] }
}

function entryOf(found: v.BaseIssue<unknown>, where: Where): Issue {
  const path = found.path ?? []
  const loc: (string | number)[] = [
    where,
    ...path.map((item) => (typeof item.key === 'number' ? item.key : String(item.key)))
  ]
  if (isMissing(found)) return issue('missing', loc)
  const input = shownInput(found.input, loc)
  const entry = { ...wordsOf(found), loc }
  return input === undefined ? entry : { ...entry, input }
}

// Decided by the object that lacks the key, not by the issue's text.
function isMissing(found: v.BaseIssue<unknown>): boolean {
  const last = found.path?.at(-1)
  return last !== undefined && last.type === 'object' && found.kind === 'schema' && !(String(last.key) in last.input)
}

function wordsOf(found: v.BaseIssue<unknown>): Issue {
  const { requirement } = found
  switch (found.type) {
    case 'raw_transform':
      return issue(isIssueType(found.expected) ? found.expected : 'value_error', [])
    case 'raw_check':
      return isIssueType(found.expected)
        ? lengthIssue(found.expected, 'min_length', Number(found.received))
        : { type: 'value_error', loc: [], msg: found.message }
    case 'strict_object':
      return issue(found.expected === 'never' ? 'extra_forbidden' : 'dict_type', [])
    case 'picklist':
    case 'literal':
      return issue('literal_error', [], { expected: orList(found.expected ?? '') })
    case 'min_value':
      return issue('greater_than_equal', [], { ge: Number(requirement) })
    case 'max_value':
      return issue('less_than_equal', [], { le: Number(requirement) })
    case 'gt_value':
      return issue('greater_than', [], { gt: Number(requirement) })
    case 'min_length':
      return lengthIssue(isText(found) ? 'string_too_short' : 'too_short', 'min_length', Number(requirement))
    case 'max_length':
      return lengthIssue(isText(found) ? 'string_too_long' : 'too_long', 'max_length', Number(requirement))
    case 'regex':
      return issue('string_pattern_mismatch', [], { pattern: requirement instanceof RegExp ? requirement.source : '' })
    default: {
      const type = TYPE_ISSUES[found.type]
      // v.check(rule, message): the message is the rule's own public text.
      return type ? issue(type, []) : { type: 'value_error', loc: [], msg: found.message }
    }
  }
}

/** By the type of valibot's schema. */
const TYPE_ISSUES: Readonly<Record<string, IssueType>> = {
  string: 'string_type',
  number: 'float_type',
  boolean: 'bool_type',
  array: 'list_type',
  object: 'dict_type',
  loose_object: 'dict_type',
  record: 'dict_type',
  finite: 'finite_number',
  safe_integer: 'int_from_float'
}

function isText(found: v.BaseIssue<unknown>): boolean {
  return typeof found.input === 'string'
}

function lengthIssue(type: IssueType, name: 'min_length' | 'max_length', length: number): Issue {
  const entry = issue(type, [], { [name]: length })
  return length === 1 ? { ...entry, msg: entry.msg.replace(/s$/, '') } : entry
}

function isIssueType(text: string | null): text is IssueType {
  return text !== null && Object.hasOwn(WORDS, text)
}

// valibot lists choices as `("a" | "b" | "c")`; clients know them as `'a', 'b' or 'c'`.
function orList(expected: string): string {
  const names = expected
    .replace(/^\(|\)$/g, '')
    .split(' | ')
    .map((name) => name.replace(/^"(.*)"$/, "'$1'"))
  const last = names.pop() ?? ''
  return names.length === 0 ? last : `${names.join(', ')} or ${last}`
}

const SECRET_FIELDS: ReadonlySet<string | number> = new Set(
  'password current_password new_password api_key token client_secret refresh_token env headers'.split(' ')
)
const INPUT_CHARS_MAX = 200

// Objects and arrays are never shown: a secret may lie in them, and some are 100,000 levels deep.
function shownInput(input: unknown, loc: readonly (string | number)[]): unknown {
  if (loc.some((part) => SECRET_FIELDS.has(part))) return undefined
  if (typeof input === 'string') return input.length > INPUT_CHARS_MAX ? `${input.slice(0, INPUT_CHARS_MAX)}…` : input
  if (input === null || typeof input === 'number' || typeof input === 'boolean') return input
  return undefined
}
