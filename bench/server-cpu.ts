// The processor time and the memory of a server that this process has started, with all its processes: what a database does is done there.
import { readdirSync, readFileSync } from 'node:fs'

/** Of Linux, on every machine that Node runs on. */
const TICKS_A_SECOND = 100

const PAGE_BYTES = 4096

/** Microseconds that the process and its children have used so far, those that have ended as well. Linux only. */
export function cpuOf(pid: number): number {
  const ticks = processesOf(pid).reduce((sum, { own, ended, isParent }) => sum + own + (isParent ? ended : 0), 0)
  return (ticks / TICKS_A_SECOND) * 1e6
}

/** Megabytes of memory. */
export interface Memory {
  readonly own: number
  readonly children: number
}

/** What the process holds, and what its children do. */
export function memoryOf(pid: number): Memory {
  const processes = processesOf(pid)
  const held = (parent: boolean) =>
    (processes.reduce((sum, { pages, isParent }) => sum + (isParent === parent ? pages : 0), 0) * PAGE_BYTES) / 1e6
  return { own: held(true), children: held(false) }
}

function processesOf(pid: number) {
  return readdirSync('/proc').flatMap((name) => {
    const fields = /^\d+$/.test(name) ? fieldsOf(name) : null
    const isParent = name === String(pid)
    return fields && (isParent || fields.parent === pid) ? [{ ...fields, isParent }] : []
  })
}

function fieldsOf(name: string): { parent: number; own: number; ended: number; pages: number } | null {
  try {
    const text = readFileSync(`/proc/${name}/stat`, 'utf8')
    // Behind the program's name, which may hold anything: state, parent, ...; the times are the 14th to 17th of all, pages in memory the 24th.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const at = (no: number) => Number(fields[no - 3])
    return { parent: at(4), own: at(14) + at(15), ended: at(16) + at(17), pages: at(24) }
  } catch {
    // It has ended meanwhile.
    return null
  }
}
