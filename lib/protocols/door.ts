// The door of a protocol that is not ours: all of its rows write refusals in its form, guards' and limits' included, and are turned off
// together. What is not there below the path that they have in common is refused in that form too (`Router.errorsOf`).
import type { Route } from '../http/route.ts'

/** `part`: the name by which an operator turns it off. */
type Door = Pick<Route, 'errors' | 'part'>

export function throughDoor({ errors, part }: Door, rows: readonly Route[]): Route[] {
  return rows.map((row) => ({ ...row, errors, part }))
}
