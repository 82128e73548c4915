// `npm run bench`: every bench. `npm run bench -- fanout --joiners 1000`: one of them. `--quick`: fewer repeats.
import { parseArgs } from 'node:util'
import { commit } from './commit.ts'
import { fanout } from './fanout.ts'
import { firstFrame } from './first-frame.ts'
import { logins } from './logins.ts'
import { replay } from './replay.ts'
import { machine } from './report.ts'
import { threadGrowth } from './thread-growth.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean', default: false }, joiners: { type: 'string' } }
})
const options = { quick: values.quick, joiners: values.joiners === undefined ? null : Number(values.joiners) }

const BENCHES: Readonly<Record<string, (given: typeof options) => Promise<void>>> = {
  fanout,
  replay,
  'first-frame': firstFrame,
  commit,
  'thread-growth': threadGrowth,
  logins
}

const names = positionals.length ? positionals : Object.keys(BENCHES)
process.stdout.write(`${machine()}\n`)
for (const name of names) {
  const bench = BENCHES[name]
  if (!bench) throw new Error(`there is no bench ${name}; there are ${Object.keys(BENCHES).join(', ')}`)
  await bench(options)
}
process.exit(0)
