// Options by name as a file has them, before validation.

export type Tree = { [name: string]: unknown }

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The path of an option as people write it: `server.port`. */
export function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

/** Sets the option at `path`, which has one or two names. */
export function put(options: Tree, path: string, value: unknown): void {
  const [name = '', inner] = path.split('.')
  if (inner === undefined) {
    options[name] = value
    return
  }
  const part = options[name]
  options[name] = { ...(isTree(part) ? part : {}), [inner]: value }
}
