// Problems of a configuration as sentences: unknown keys, with the nearest known one, and wrong values; each mistake once, and all in
// one round.
import type * as v from 'valibot'
import { isTree, join } from './environment.ts'

/**
 * Turns schema issues into sentences. Only numbers, booleans and choices are quoted: any other value may be a key.
 * @param names by path: the name of the flag or variable a value came from
 */
function sentence(issue: v.BaseIssue<unknown>, names: ReadonlyMap<string, string>): string {
  const path = pathOf(issue)
  const isText = issue.type === 'picklist' && typeof issue.input === 'string'
  const isShown = isText || typeof issue.input === 'number' || typeof issue.input === 'boolean'
  return `${names.get(path) ?? path} ${issue.message}${isShown ? ` (it is ${String(issue.input)})` : ''}.`
}

function pathOf({ path }: v.BaseIssue<unknown>): string {
  return (path ?? []).reduce(
    (way, item) => (typeof item.key === 'number' ? `${way}[${item.key}]` : join(way, String(item.key))),
    ''
  )
}

/** The part of a schema that this needs. */
interface Shape {
  readonly type: string
  readonly entries?: Readonly<Record<string, Shape>>
  readonly wrapped?: Shape
  readonly item?: Shape
  /** Present if the schema depends on the value. */
  readonly getter?: (input: unknown) => Shape
}

/** Problems so far, and where they are: one mistake is told once. */
export class Wrong {
  readonly #problems: string[]
  /** Paths of what is no object and should be one, and of variables that are not set. */
  readonly #values = new Set<string>()
  /** Paths of objects with an unknown key: what they miss may be what it means. */
  readonly #misspelled = new Set<string>()

  constructor(problems: string[]) {
    this.#problems = problems
    for (const problem of problems) this.#values.add(problem.split(' ', 1)[0]!)
  }

  addKey(path: string, name: string, known: readonly string[]): void {
    this.#misspelled.add(path)
    this.#problems.push(`${join(path, name)} is not an option; ${hint(name, known)}`)
  }

  addValue(path: string): void {
    this.#values.add(path)
    this.#problems.push(`${path || 'The configuration file'} must hold options by name.`)
  }

  addIssue(issue: v.BaseIssue<unknown>, names: ReadonlyMap<string, string>): void {
    const path = pathOf(issue)
    this.#add(path, sentence(issue, names), issue.input === undefined)
    this.#values.add(path)
  }

  /** What does not go together, or follows from values: each sentence begins with the path of its option. */
  addSentences(sentences: readonly string[]): void {
    for (const text of sentences) this.#add(text.split(' ', 1)[0]!, text, text.includes(' is missing'))
  }

  #add(path: string, text: string, isMissing: boolean): void {
    const parent = path.slice(0, Math.max(0, path.lastIndexOf('.')))
    const isMeant = isMissing && this.#misspelled.has(parent)
    if (!isMeant && !this.#values.has(path)) this.#problems.push(text)
  }
}

/** Every option that a variable can set, values, lists, and sections by their parts: the type of its schema by its path. */
export function typesOf(schema: Shape, path = ''): ReadonlyMap<string, string> {
  if (schema.wrapped) return typesOf(schema.wrapped, path)
  if (!schema.entries) return new Map([[path, schema.type]])
  return new Map(Object.entries(schema.entries).flatMap(([name, inner]) => [...typesOf(inner, join(path, name))]))
}

/** Adds a sentence for every unknown key in `value`, suggesting the nearest known one. */
export function checkKeys(schema: Shape, value: unknown, path: string, wrong: Wrong): void {
  if (value === null || value === undefined) return
  if (schema.wrapped) return checkKeys(schema.wrapped, value, path, wrong)
  if (schema.getter) return checkKeys(schema.getter(value), value, path, wrong)
  if (schema.item && Array.isArray(value)) {
    for (const [i, item] of value.entries()) checkKeys(schema.item, item, `${path}[${i}]`, wrong)
  }
  const { entries } = schema
  if (!entries) return
  if (!isTree(value)) return wrong.addValue(path)
  for (const [name, inner] of Object.entries(value)) {
    const known = Object.hasOwn(entries, name) ? entries[name] : undefined
    if (known) checkKeys(known, inner, join(path, name), wrong)
    else wrong.addKey(path, name, Object.keys(entries))
  }
}

/** The name that was meant, if one is near: any other would mislead. */
function hint(name: string, known: readonly string[]): string {
  const [nearest] = known
    .map((other) => ({ other, steps: distance(name, other) }))
    .sort((one, two) => one.steps - two.steps)
  const isNear =
    nearest !== undefined &&
    nearest.steps <= Math.max(2, Math.floor(name.length / 3)) &&
    nearest.steps < name.length - 1
  return isNear ? `did you mean ${nearest.other}?` : `there are ${known.join(', ')}.`
}

function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i)
  for (let i = 1; i <= one.length; i++) {
    const above = row
    row = [i]
    for (let j = 1; j <= other.length; j++) {
      const changed = (above[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1)
      row.push(Math.min(changed, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
  }
  return row[other.length] ?? 0
}
