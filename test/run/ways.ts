// The ways of lib/README.md: what a delta, a new run, a rejoin and a search go through is what V8 counts, and no longer than agreed.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { countWays, filesIn, LIMITS, shownIn, type Way } from '../../bench/ways.ts'

const README = shownIn(readFileSync(fileURLToPath(new URL('../../../lib/README.md', import.meta.url)), 'utf8'))
/** Counts differ between versions of Node, and a run's first bytes go out while its model is being asked. */
const APART = 0.1
/** Called by how long something took and not by how often: on a slow machine turns of the loop are left to others. */
const BY_TIME = ['loop-turns']

/** What is not as lib/README.md shows it. */
function problems({ name, files, functions }: Way): string[] {
  const limit = LIMITS[name]
  const row = new RegExp(`^\\| ${name.replace(/[/.]/g, '\\$&')} \\| (\\d+) \\| (\\d+) \\|`, 'm').exec(README) ?? []
  const isNear = (shown: string | undefined, counted: number) => Math.abs(Number(shown) - counted) <= counted * APART
  const shown = filesIn(README, name).filter((file) => !BY_TIME.includes(file))
  const counted = files.map((file) => file.name).filter((file) => !BY_TIME.includes(file))
  const apart =
    shown.length === 0 ? [] : [...shown, ...counted].filter((one) => !(shown.includes(one) && counted.includes(one)))
  return [
    ...(files.length > limit.files ? [`${files.length} files, of ${limit.files} at most`] : []),
    ...(functions > limit.functions ? [`${functions} functions, of ${limit.functions} at most`] : []),
    ...(isNear(row[1], files.length) ? [] : [`${files.length} files, not ${row[1]}`]),
    ...(isNear(row[2], functions) ? [] : [`${functions} functions, not ${row[2]}`]),
    ...apart.map((file) => `${file} is ${shown.includes(file) ? 'not passed' : 'not shown'}`)
  ].map((problem) => `${name}: ${problem}`)
}

t.test('the ways that lib/README.md shows are those that V8 counts, none longer than its limit', async (t) => {
  const ways = await countWays()
  const found = ways.flatMap(problems)
  // V8 counts a function now and then whose counter it has just collected: what is wrong is wrong twice.
  const again = found.length === 0 ? [] : (await countWays()).flatMap(problems)
  t.same(
    found.filter((problem) => again.includes(problem)),
    []
  )
  const translated = ways.flatMap(({ name, files }) =>
    files.flatMap((file) => (file.name.startsWith('protocols/') ? [`${name}: ${file.name}`] : []))
  )
  t.same(translated, [], 'and who speaks no other protocol pays for none')
})
