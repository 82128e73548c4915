// A tree of options by name, as it stands in a file: nothing in it is checked yet.

export type Tree = { [name: string]: unknown }

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The path of an option as people write it: `server.port`. */
export function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

/** Sets the option at `path`, which is of one name or two. */
export function put(options: Tree, path: string, value: unknown): void {
  const [name = '', inner] = path.split('.')
  if (inner === undefined) {
    options[name] = value
    return
  }
  const part = options[name]
  options[name] = { ...(isTree(part) ? part : {}), [inner]: value }
}
