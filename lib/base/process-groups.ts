// Processes that strangers' programs run in, each with what it starts itself: a group, which is ended as one, and also when our process
// dies without cleaning up, for example by SIGKILL. A small shell reads from our pipe, which the system closes when we die; then the
// shell kills the remaining groups.
import { type ChildProcess, spawn } from 'node:child_process'

/** Reads `+ <group>` and `- <group>`; at the end of its input it kills the groups that are left. */
const SCRIPT = `
alive=' '
while read -r sign group; do
  case $sign in
    +) alive="$alive$group " ;;
    -) alive="\${alive%% $group *} \${alive#* $group }" ;;
  esac
done
for group in $alive; do kill -s KILL -- "-$group"; done`

class ProcessGroups {
  readonly #groups = new Set<number>()
  #watcher: ChildProcess | null = null

  /** @param leader started as `detached`. From now on its group ends with it, and with us. */
  hold(leader: ChildProcess): void {
    const { pid } = leader
    if (pid === undefined) return
    this.#groups.add(pid)
    if (this.#watcher === null) this.#watch()
    else this.#write(`+ ${pid}\n`)
    leader.once('exit', () => {
      signalGroup(pid, 'SIGKILL')
      this.#release(pid)
    })
  }

  /** Its pid may be reused. */
  #release(group: number): void {
    if (!this.#groups.delete(group)) return
    if (this.#groups.size > 0) return this.#write(`- ${group}\n`)
    this.#write(`- ${group}\n`)
    this.#watcher?.stdin?.end()
    this.#watcher = null
  }

  #watch(): void {
    // detached, so that a signal from the terminal does not kill it before us.
    const watcher = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, env: {} })
    const lost = () => {
      if (this.#watcher === watcher) this.#watcher = null
    }
    // Without the shell, servers still end when we close them.
    watcher.on('error', lost).on('exit', lost)
    watcher.stdin.on('error', () => {})
    watcher.unref()
    this.#watcher = watcher
    for (const group of this.#groups) this.#write(`+ ${group}\n`)
  }

  #write(line: string): void {
    this.#watcher?.stdin?.write(line)
  }
}

type Signal = 'SIGTERM' | 'SIGKILL'

/** Those of this process. */
export const processGroups = new ProcessGroups()

/** Nothing happens where it has ended. */
export function endGroup({ pid, exitCode, signalCode }: ChildProcess, signal: Signal): void {
  if (pid !== undefined && exitCode === null && signalCode === null) signalGroup(pid, signal)
}

function signalGroup(group: number, signal: Signal): void {
  try {
    process.kill(-group, signal)
  } catch {
    // The group is empty.
  }
}
