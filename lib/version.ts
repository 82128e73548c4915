// The version of this package, as its package.json says.
import { readFileSync } from 'node:fs'

/** Above dist/lib/ in the package, above lib/ where Node runs the source. */
const PLACES = ['../../package.json', '../package.json']

function read(): string {
  for (const place of PLACES) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8')) as Record<
        string,
        string
      >
      if (name === 'colloquy' && version) return version
    } catch {
      // Not there: the other one is.
    }
  }
  return 'unknown'
}

export const VERSION = read()
