// `npm run bench`: every bench, and the target table. `npm run bench -- fanout --joiners 1000`: one of them. `--quick`: small sizes
// and one repeat. `--out FILE`: JSON lines. `--profile FOLDER`: a CPU profile of every server. `-- report FILE...`: the table and the chart of such files. `-- compare A B [bench...]`:
// two commits, or two such files.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inspect, parseArgs } from 'node:util'
import { misuseOf, UsageError } from '../bin/command.ts'
import { chart } from './chart.ts'
import { commit } from './commit.ts'
import { compaction } from './compaction.ts'
import { compare } from './compare.ts'
import { delta } from './delta.ts'
import { encodings } from './encodings.ts'
import { fanout } from './fanout.ts'
import { firstFrame } from './first-frame.ts'
import { flush } from './flush.ts'
import { idle } from './idle.ts'
import { latency } from './latency.ts'
import { logins } from './logins.ts'
import { loopDelay } from './loop-delay.ts'
import { manyRuns } from './many-runs.ts'
import type { Options } from './options.ts'
import { page } from './page.ts'
import { pages } from './pages.ts'
import { protocol } from './protocol.ts'
import { proxy } from './proxy.ts'
import { python } from './python.ts'
import { replay } from './replay.ts'
import { resume } from './resume.ts'
import { commit as commitId, type Entry, entries, machine, reportTo, table } from './report.ts'
import { profileTo } from './rig.ts'
import { search } from './search.ts'
import { state } from './state.ts'
import { storage } from './storage.ts'
import { stores } from './stores.ts'
import { targetRows } from './targets.ts'
import { threadGrowth } from './thread-growth.ts'
import { ways } from './ways.ts'

const BENCHES: Readonly<Record<string, (options: Options) => Promise<void>>> = {
  delta,
  fanout,
  protocol,
  encodings,
  latency,
  'many-runs': manyRuns,
  'first-frame': firstFrame,
  replay,
  resume,
  idle,
  flush,
  commit,
  compaction,
  stores,
  'loop-delay': loopDelay,
  pages,
  state,
  storage,
  'thread-growth': threadGrowth,
  logins
}

/** Not part of all: they need what may not be there, or measure no time. */
const MORE: typeof BENCHES = { page, proxy, python, search, ways }

const USAGE = `npm run bench -- [NAME]... [--quick] [--repeats NUMBER] [--joiners NUMBER] [--store MODULE] [--out FILE] [--profile FOLDER]
npm run bench -- report FILE... [--chart FILE]
npm run bench -- compare COMMIT... [--quick]

All of: ${Object.keys(BENCHES).join(' ')}
And by name: ${Object.keys(MORE).join(' ')}`

const REPEATS = 3
const CHART = 'bench/chart.svg'

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Prints the target table, and draws it where it is asked for. */
function conclude(all: readonly Entry[], chartFile: string | undefined): void {
  const rows = targetRows(all)
  if (rows.length === 0) return
  say(`\n## Targets (${commitId()}, ${machine()})\n\n${table(rows)}`)
  if (chartFile) writeFileSync(chartFile, chart(all))
}

function entriesOf(file: string): Entry[] {
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  // The benches wrote them.
  return lines.map((line) => JSON.parse(line) as Entry)
}

async function run(names: readonly string[], options: Options): Promise<void> {
  say(machine())
  for (const name of names.length ? names : Object.keys(BENCHES)) {
    const bench = BENCHES[name] ?? MORE[name]
    const known = [...Object.keys(BENCHES), ...Object.keys(MORE)]
    if (!bench) throw new UsageError(`There is no bench ${name}; there are ${known.join(', ')}`)
    await bench(options)
  }
}

/** What the command line says; resolves when all of it is done. */
export async function main(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h', default: false },
      quick: { type: 'boolean', default: false },
      repeats: { type: 'string' },
      joiners: { type: 'string' },
      store: { type: 'string' },
      nginx: { type: 'string' },
      beside: { type: 'string' },
      out: { type: 'string' },
      profile: { type: 'string' },
      chart: { type: 'string' }
    }
  })
  const { quick, out, profile } = values
  if (values.help) return say(USAGE)
  const repeats = Number(values.repeats ?? (quick ? 1 : REPEATS))
  const [first, ...rest] = positionals
  if (first === 'report') return conclude(rest.flatMap(entriesOf), values.chart ?? CHART)
  if (first === 'compare') return compare(rest, { quick, repeats })
  if (out) reportTo(out)
  if (profile) profileTo(profile)
  await run(positionals, {
    quick,
    repeats,
    joiners: values.joiners === undefined ? null : Number(values.joiners),
    store: values.store ?? null,
    ...(values.nginx && { nginx: values.nginx }),
    ...(values.beside && { beside: values.beside })
  })
  conclude(entries, values.chart)
}

// Run by itself, and not by `colloquy bench`.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main(process.argv.slice(2)).then(
    () => process.exit(0),
    (error: unknown) => {
      const misuse = misuseOf(error)
      const text = misuse ? `${misuse.message}\n\n${USAGE}` : inspect(error)
      process.stderr.write(`${text}\n`, () => process.exit(misuse ? 2 : 1))
    }
  )
}
