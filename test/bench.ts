// The benches: what is measured is judged by its bound, every row of the target table is measured by somebody, and one of them runs.
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { chart } from '../bench/chart.ts'
import type { Entry, Measure } from '../bench/report.ts'
import { resultOf, TARGETS, type TargetName, targetRows } from '../bench/targets.ts'

const BENCHES = fileURLToPath(new URL('../../bench', import.meta.url))
const COMMAND = fileURLToPath(new URL('../bin/colloquy.js', import.meta.url))

function entryOf(measures: readonly Measure[]): Entry {
  return { question: 'q', configuration: {}, machine: 'm', commit: 'c', rows: [], measures }
}

t.test('a figure is judged by its ratio to the floor of the same run, or by itself', async (t) => {
  const verdict = (target: TargetName, ours: number, floor: number[]) =>
    resultOf({ target, ours: [ours], floor }).verdict
  t.equal(verdict('fanout-100', 11, [10]), 'excellent')
  t.equal(verdict('fanout-100', 18, [10]), 'good')
  t.equal(verdict('fanout-100', 20, [10]), 'short')
  t.equal(verdict('fanout-100', 1, []), 'short', 'without a floor nothing is said')
  t.equal(verdict('first-1', 4, [1]), 'excellent')
  t.equal(verdict('fanout-flat-rate', 900_000, []), 'excellent')
  t.equal(verdict('fanout-flat-rate', 300_000, []), 'short')
})

t.test('a median stands for the repeats, the newest measure for a row', async (t) => {
  const old = entryOf([{ target: 'idle', ours: [99], floor: [] }])
  const rows = targetRows([old, entryOf([{ target: 'idle', ours: [12, 50, 14], floor: [10] }])])
  t.match(rows, [{ Ours: '14 [12-50]', Ratio: 1.4, Verdict: '**excellent**' }])
})

t.test('every row of the target table is measured by a bench', async (t) => {
  const sources = readdirSync(BENCHES).filter((name) => name.endsWith('.ts') && name !== 'targets.ts')
  const text = sources.map((name) => readFileSync(join(BENCHES, name), 'utf8')).join('\n')
  t.same(
    Object.keys(TARGETS).filter((name) => !text.includes(`'${name}'`)),
    []
  )
})

t.test('the chart has a bar for each row, and no text that is not XML', async (t) => {
  const svg = chart([{ ...entryOf([{ target: 'idle', ours: [14], floor: [10] }]), machine: 'A & B <c>' }])
  t.match(svg, /^<svg /)
  t.match(svg, 'A &amp; B &lt;c&gt;')
  t.equal(svg.match(/<rect /g)?.length, 2, 'the ground, and one bar')
})

t.test('an installed copy can run one, and keep its figures as JSON lines', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const out = join(folder, 'results.jsonl')
  const run = promisify(execFile)
  const { stdout } = await run(process.execPath, [COMMAND, 'bench', 'first-frame', '--quick', '--out', out], {
    cwd: folder
  })
  t.match(stdout, /^\| first frame of a new run \|/m)
  const lines = readFileSync(out, 'utf8').trim().split('\n')
  t.equal(lines.length, 1)
  const [entry] = lines.map((line) => JSON.parse(line) as Entry)
  t.match(entry, { machine: String, measures: [{ target: 'first-1' }, { target: 'first-50' }] })
  const { stdout: table } = await run(process.execPath, [
    COMMAND,
    'bench',
    'report',
    out,
    '--chart',
    join(folder, 'a.svg')
  ])
  t.match(table, /first frame of a new run, 50 at once/)
  t.match(readFileSync(join(folder, 'a.svg'), 'utf8'), /<\/svg>/)
})

t.test('a store of somebody else’s runs beside ours, in one table', async (t) => {
  const store = fileURLToPath(new URL('examples/file-store.js', import.meta.url))
  const options = { cwd: tmpdir(), maxBuffer: 16 * 1024 * 1024 }
  const args = [COMMAND, 'bench', 'stores', '--quick', '--store', store]
  const { stdout } = await promisify(execFile)(process.execPath, args, options)
  for (const name of ['sqlite', 'postgres', 'memory', store]) {
    const rows = stdout.split('\n').filter((line) => line.startsWith(`| ${name} |`))
    t.equal(rows.length, 5, `${name}: four sizes of batches, and what it reads`)
  }
})
