// Two commits beside each other: each is checked out and built in a folder of its own, their benches run in turn, and the figures of
// the target table are put side by side. Or two files of results.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Entry, type Measure, median, type Row, short, table } from './report.ts'
import { TARGETS, type TargetName } from './targets.ts'

interface Build {
  readonly commit: string
  readonly folder: string
  /** Its results, as JSON lines. */
  readonly results: string
}

/** @param given two commits or two files, and the benches to run; by default those of the live path */
export async function compare(
  [one, other, ...benches]: readonly string[],
  { quick, repeats }: { readonly quick: boolean; readonly repeats: number }
): Promise<void> {
  if (!one || !other) throw new Error('compare what? Name two commits, or two files of results')
  if (existsSync(one) && existsSync(other)) return show(one, measuresIn(one), other, measuresIn(other))
  const names = benches.length ? benches : ['fanout', 'many-runs', 'replay']
  const root = git(['rev-parse', '--show-toplevel'])
  const space = mkdtempSync(join(tmpdir(), 'colloquy-compare-'))
  try {
    const builds = [one, other].map((commit, i) => build(root, commit, join(space, `${i}`)))
    // In turn, a repeat at a time: a slow minute of the machine is then both commits'.
    for (let i = 0; i < repeats; i++) for (const each of builds) bench(each, names, quick)
    const [first, second] = builds.map(({ results }) => measuresIn(results))
    show(one, first ?? [], other, second ?? [])
  } finally {
    rmSync(space, { recursive: true, force: true })
    git(['worktree', 'prune'])
  }
}

function git(args: readonly string[]): string {
  return execFileSync('git', args, { encoding: 'utf8' }).trim()
}

function build(root: string, commit: string, folder: string): Build {
  git(['worktree', 'add', '--detach', folder, commit])
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  return { commit, folder, results: join(folder, 'results.jsonl') }
}

function bench({ folder, results }: Build, names: readonly string[], quick: boolean): void {
  const args = ['dist/bench/index.js', ...names, '--repeats', '1', '--out', results, ...(quick ? ['--quick'] : [])]
  execFileSync(process.execPath, args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
}

/** What a file holds of each target, its repeats together. */
function measuresIn(file: string): Measure[] {
  // The benches wrote it.
  const entries = readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Entry)
  const all = new Map<TargetName, Measure>()
  for (const measure of entries.flatMap(({ measures }) => measures)) {
    const { target } = measure
    const before = all.get(target) ?? { ours: [], floor: [] }
    all.set(target, { target, ours: [...before.ours, ...measure.ours], floor: [...before.floor, ...measure.floor] })
  }
  return [...all.values()]
}

function show(one: string, first: readonly Measure[], other: string, second: readonly Measure[]): void {
  const rows = first.flatMap((measure): Row[] => {
    const same = second.find(({ target }) => target === measure.target)
    if (!same) return []
    const { scenario, unit } = TARGETS[measure.target]
    const ratio = short(median(same.ours).mid / median(measure.ours).mid)
    const floors =
      same.floor.length && measure.floor.length ? short(median(same.floor).mid / median(measure.floor).mid) : ''
    return [
      {
        scenario,
        unit,
        [one]: median(measure.ours).text,
        [other]: median(same.ours).text,
        ratio,
        'floors: ratio': floors
      }
    ]
  })
  process.stdout.write(`\n${table(rows)}\n\nWhere the floors differ as much as the figures, it was the machine.\n`)
}
