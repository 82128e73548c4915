// Kills the process groups of tool servers when our process dies without cleaning up, as by SIGKILL. A small shell
// reads from a pipe of ours; the system closes the pipe when we die, and the shell kills the groups it was told of.
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

export class ProcessGroups {
  readonly #groups = new Set<number>()
  #watcher: ChildProcess | null = null

  /** @param group the process that leads it; from here on it dies with us */
  hold(group: number): void {
    this.#groups.add(group)
    if (this.#watcher === null) this.#watch()
    else this.#tell(`+ ${group}\n`)
  }

  /** It has ended: its pid may be reused. */
  release(group: number): void {
    if (!this.#groups.delete(group)) return
    if (this.#groups.size > 0) return this.#tell(`- ${group}\n`)
    this.#tell(`- ${group}\n`)
    this.#watcher?.stdin?.end()
    this.#watcher = null
  }

  #watch(): void {
    // detached: a signal from the terminal must not kill it before us.
    const watcher = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, env: {} })
    const lost = () => {
      if (this.#watcher === watcher) this.#watcher = null
    }
    // A machine without a shell, or one that was ended by hand: servers still end when we close them.
    watcher.on('error', lost).on('exit', lost)
    watcher.stdin.on('error', () => {})
    watcher.unref()
    this.#watcher = watcher
    for (const group of this.#groups) this.#tell(`+ ${group}\n`)
  }

  #tell(line: string): void {
    this.#watcher?.stdin?.write(line)
  }
}
