// Finds unknown keys: a mistyped name would otherwise silently give a default.
import { isTree, join } from './tree.ts'

/** The part of a schema that this needs. */
interface Shape {
  readonly type: string
  readonly entries?: Readonly<Record<string, Shape>>
  readonly wrapped?: Shape
  readonly item?: Shape
  /** Present if the schema depends on the value. */
  readonly getter?: (input: unknown) => Shape
}

/** Adds a sentence for every unknown key in `value`, suggesting the nearest known one. */
export function checkKeys(schema: Shape, value: unknown, path: string, problems: string[]): void {
  if (value === null || value === undefined) return
  if (schema.wrapped) return checkKeys(schema.wrapped, value, path, problems)
  if (schema.getter) return checkKeys(schema.getter(value), value, path, problems)
  if (schema.item && Array.isArray(value)) {
    for (const [i, item] of value.entries()) checkKeys(schema.item, item, `${path}[${i}]`, problems)
  }
  const { entries } = schema
  if (!entries) return
  if (!isTree(value)) {
    problems.push(`${path || 'The configuration file'} must hold options by name.`)
    return
  }
  for (const [name, inner] of Object.entries(value)) {
    const known = Object.hasOwn(entries, name) ? entries[name] : undefined
    if (known) checkKeys(known, inner, join(path, name), problems)
    else problems.push(`${join(path, name)} is not an option; ${hint(name, Object.keys(entries))}`)
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
