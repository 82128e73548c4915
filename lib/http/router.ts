// The router: method and path -> route and parameters. A tree of segments without regular expressions; a static segment wins over a {name}.
import { fail } from '../base/errors.ts'
import type { ErrorForm } from './dialect.ts'
import type { Route } from './route.ts'
import { segmentsOf } from './request.ts'

export type Match =
  | {
      readonly kind: 'found'
      readonly route: Route
      readonly params: Readonly<Record<string, string>>
      readonly path: string
      /** The path as it was read: whoever else looks at it looks at these. */
      readonly segments: readonly string[]
    }
  /** The path is known, the method is not. `isPublic`: some route at this path needs no session. */
  | {
      readonly kind: 'method'
      readonly allow: string
      readonly isPublic: boolean
      readonly path: string
      readonly segments: readonly string[]
    }
  | { readonly kind: 'missing'; readonly path: string; readonly segments: readonly string[] }
  /** Broken percent-encoding, or a NUL. */
  | { readonly kind: 'malformed'; readonly path: string; readonly segments: null }

interface Leaf {
  readonly route: Route
  /** Names of the parameters, in the order of their segments. */
  readonly names: readonly string[]
  /** Of the row's path. */
  readonly segments: readonly string[]
}
type Leaves = Map<string, Leaf>

interface Node {
  readonly statics: Map<string, Node>
  /** The child for a {name}. */
  any: Node | null
  /** Routes that end here, by method. */
  readonly leaves: Leaves
  /** Routes that take the rest of the path. */
  readonly tails: Leaves
}

/** A match in progress: `values` are the segments matched by a {name}. */
interface Hit {
  readonly leaf: Leaf
  readonly values: readonly string[]
}

export class Router {
  readonly #root = newNode()
  /** Paths without parameters: one lookup for the common case. */
  readonly #whole = new Map<string, Leaves>()
  /** Where all rows with an error form of their own are: what is missed below it is refused in that form too. */
  readonly #doors: readonly Door[]

  constructor(routes: readonly Route[]) {
    for (const route of routes) this.#add(route)
    this.#doors = doorsOf(routes)
  }

  /** The form of refusals of the matched row, or of the rows around a path that matches none; null: the contract's. */
  errorsOf(match: Match): ErrorForm | null {
    if (match.kind === 'found') return match.route.errors === 'contract' ? null : match.route.errors
    const segments = match.path.slice(1).split('/')
    return this.#doors.find(({ prefix }) => isBelow(prefix, segments))?.errors ?? null
  }

  /**
   * @param method HEAD is answered by the GET route
   * @param target path of the request line, still encoded, without the query
   */
  match(method: string, target: string): Match {
    const wanted = method === 'HEAD' ? 'GET' : method
    const leaf = this.#whole.get(target)?.get(wanted)
    if (leaf !== undefined) {
      const { route, segments } = leaf
      return { kind: 'found', route, params: NO_PARAMS, path: target, segments }
    }
    const segments = segmentsOf(target)
    if (segments === null) return { kind: 'malformed', path: target, segments }
    const path = `/${segments.join('/')}`
    const missed: Leaves[] = []
    const hit = find(this.#root, segments, 0, [], wanted, missed)
    if (hit !== null) return { kind: 'found', route: hit.leaf.route, params: paramsOf(hit), path, segments }
    if (missed.length === 0) return { kind: 'missing', path, segments }
    return { kind: 'method', allow: allowOf(missed), isPublic: missed.some(hasPublic), path, segments }
  }

  #add(route: Route): void {
    const names: string[] = []
    const segments = route.path === '/' ? [] : route.path.slice(1).split('/')
    let node = this.#root
    segments.forEach((segment, i) => {
      const name = /^\{(\w+)\}$/.exec(segment)?.[1]
      if (name !== undefined) names.push(name)
      const isTail = route.tail && i === segments.length - 1
      if (!isTail) node = name === undefined ? staticChild(node, segment) : anyChild(node)
    })
    const leaves = route.tail ? node.tails : node.leaves
    if (leaves.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`)
    leaves.set(route.method, { route, names, segments })
    if (names.length === 0) this.#whole.set(route.path, leaves)
  }
}

interface Door {
  readonly prefix: readonly string[]
  readonly errors: ErrorForm
}

const isName = (segment = ''): boolean => segment.startsWith('{')

/** Around what lies below a {name}, and not around the {name} itself: that is another row. */
function isBelow(prefix: readonly string[], segments: readonly string[]): boolean {
  const least = isName(prefix.at(-1)) ? prefix.length + 1 : prefix.length
  return segments.length >= least && prefix.every((one, i) => isName(one) || one === segments[i])
}

/** For each error form the path that all of its rows have in common, longest first; none at the root. */
function doorsOf(routes: readonly Route[]): Door[] {
  const rows = new Map<ErrorForm, string[][]>()
  for (const { errors, path } of routes)
    if (errors !== 'contract') rows.set(errors, [...(rows.get(errors) ?? []), path.slice(1).split('/')])
  return [...rows]
    .map(([errors, paths]) => ({ prefix: commonOf(paths), errors }))
    .filter(({ prefix }) => prefix.length > 0)
    .sort((a, b) => b.prefix.length - a.prefix.length)
}

/** Without the names in which a row ends. */
function commonOf(paths: readonly (readonly string[])[]): readonly string[] {
  const [first = []] = paths
  const differs = first.findIndex((segment, i) => paths.some((path) => path[i] !== segment))
  let end = differs < 0 ? first.length : differs
  while (isName(first[end - 1]) && paths.some(({ length }) => length === end)) end--
  return first.slice(0, end)
}

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({})

function newNode(): Node {
  return { statics: new Map(), any: null, leaves: new Map(), tails: new Map() }
}

function staticChild(node: Node, segment: string): Node {
  const child = node.statics.get(segment) ?? newNode()
  node.statics.set(segment, child)
  return child
}

function anyChild(node: Node): Node {
  node.any ??= newNode()
  return node.any
}

// Depth first, best match first. `missed` collects matches with another method, for Allow.
function find(
  node: Node,
  segments: string[],
  i: number,
  values: string[],
  method: string,
  missed: Leaves[]
): Hit | null {
  const segment = segments[i]
  if (segment === undefined) return leafOf(node.leaves, values, method, missed)
  const child = node.statics.get(segment)
  const byName = child === undefined ? null : find(child, segments, i + 1, values, method, missed)
  if (byName !== null) return byName
  // A {name} is never empty, so `/api/threads//state` matches nothing. A tail may begin with a slash.
  const byAny =
    node.any === null || segment === '' ? null : find(node.any, segments, i + 1, [...values, segment], method, missed)
  if (byAny !== null || node.tails.size === 0) return byAny
  return leafOf(node.tails, [...values, segments.slice(i).join('/')], method, missed)
}

function leafOf(leaves: Leaves, values: string[], method: string, missed: Leaves[]): Hit | null {
  const leaf = leaves.get(method)
  if (leaf !== undefined) return { leaf, values }
  if (leaves.size > 0) missed.push(leaves)
  return null
}

function paramsOf({ leaf, values }: Hit): Readonly<Record<string, string>> {
  const params: Record<string, string> = {}
  leaf.names.forEach((name, i) => {
    params[name] = values[i] ?? ''
  })
  return params
}

function allowOf(missed: Leaves[]): string {
  const methods = new Set(missed.flatMap((leaves) => [...leaves.keys()]))
  if (methods.has('GET')) methods.add('HEAD')
  return [...methods].sort().join(', ')
}

function hasPublic(leaves: Leaves): boolean {
  return [...leaves.values()].some((leaf) => leaf.route.access === 'public')
}

/** @throws Failure of a request that no route takes */
export function missed(match: Exclude<Match, { kind: 'found' }>): never {
  if (match.kind === 'malformed') throw fail('bad_path')
  if (match.kind === 'missing') throw fail('not_found')
  throw fail('method_not_allowed', null, { Allow: match.allow })
}
