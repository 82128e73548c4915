// The version of this package, as its package.json says, and the commit it was built from, as the build has left it beside dist/lib.
import { readFileSync } from 'node:fs'

/** Above dist/lib/base/ in the package, above lib/base/ where Node runs the source. */
const PLACES = ['../../../package.json', '../../package.json']
/** Written by bin/build.ts. */
const COMMIT_PLACES = ['../../commit', '../../dist/commit']

function firstOf(places: readonly string[], read: (text: string) => string | undefined): string | undefined {
  for (const place of places) {
    try {
      const found = read(readFileSync(new URL(place, import.meta.url), 'utf8'))
      if (found) return found
    } catch {
      // Not there: the other one is.
    }
  }
  return undefined
}

function versionIn(text: string): string | undefined {
  const { name, version } = JSON.parse(text) as Record<string, string>
  return name === 'colloquy' ? version : undefined
}

export const VERSION = firstOf(PLACES, versionIn) ?? 'unknown'

/** Twelve digits; `-dirty` behind them: with changes that are in no commit. */
export const COMMIT = firstOf(COMMIT_PLACES, (text) => text.trim()) ?? 'unknown'
