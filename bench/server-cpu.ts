// The processor time of a server that this process has started, with all its processes: what a database does is done there.
import { readdirSync, readFileSync } from 'node:fs'

/** Of Linux, on every machine that Node runs on. */
const TICKS_A_SECOND = 100

/** Microseconds that the process and its children have used so far, those that have ended as well. Linux only. */
export function cpuOf(pid: number): number {
  let ticks = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = fieldsOf(name)
    if (!fields || (name !== String(pid) && fields.parent !== pid)) continue
    ticks += fields.own + (name === String(pid) ? fields.ended : 0)
  }
  return (ticks / TICKS_A_SECOND) * 1e6
}

function fieldsOf(name: string): { parent: number; own: number; ended: number } | null {
  try {
    const text = readFileSync(`/proc/${name}/stat`, 'utf8')
    // Behind the program's name, which may hold anything: state, parent, ...; the times are the 14th to 17th of all.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const at = (no: number) => Number(fields[no - 3])
    return { parent: at(4), own: at(14) + at(15), ended: at(16) + at(17) }
  } catch {
    // It has ended meanwhile.
    return null
  }
}
