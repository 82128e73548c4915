// The SQLite driver that this Node can load: better-sqlite3 13 ships its binaries and needs Node 22, where 12 has been seen to abort;
// 12 is the last that runs on Node 20, and is compiled or downloaded at install. Both are optional dependencies, npm installs what fits.
import type Database from 'better-sqlite3'

const PACKAGES =
  Number.parseInt(process.versions.node, 10) >= 22 ? ['better-sqlite3-13', 'better-sqlite3'] : ['better-sqlite3']

/** The first of the packages that loads; a package may be missing when it was installed by another Node. */
async function load([name, ...others]: readonly string[]): Promise<typeof Database> {
  try {
    // The two have the same interface as far as it is used here.
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

export const Sqlite: typeof Database = await load(PACKAGES)
