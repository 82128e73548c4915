// Loads the SQLite driver for this Node: better-sqlite3 13 ships binaries and needs Node 22, where 12 was seen to abort; 12 is the last for
// Node 20, and is compiled or downloaded at install. Both are optional dependencies; npm installs what fits.
import type Database from 'better-sqlite3'

/** Packages that a version of Node can load, the one that fits it best first. */
export function driversFor(node: string): readonly string[] {
  return Number.parseInt(node, 10) >= 22 ? ['better-sqlite3-13', 'better-sqlite3'] : ['better-sqlite3']
}

/** The first package that loads; one may be missing when another Node installed them. */
async function load([name, ...others]: readonly string[]): Promise<typeof Database> {
  try {
    // Both have the same interface, as far as it is used here.
    const { default: driver } = (await import(name!)) as { default: typeof Database }
    new driver(':memory:').close()
    return driver
  } catch (error) {
    if (others.length > 0) return load(others)
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new Error(
      `${name} cannot be loaded on Node ${process.versions.node}: run npm install with this Node (${reason})`
    )
  }
}

export const Sqlite: typeof Database = await load(driversFor(process.versions.node))
