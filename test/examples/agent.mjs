// An agent of your own, in a file: colloquy.yaml has `agent: { runtime: module, path: ./agent.mjs }`. Each text that it yields is a piece of
// its answer; lib/agent/README.md says what else it may yield (tool calls, thoughts, usage), and what `input` has.
import { setTimeout as pause } from 'node:timers/promises'

/** @param signal aborted when the run is cancelled */
export default async function* (input, signal) {
  const said = String(input.messages.at(-1)?.content ?? '')
  yield `You said ${said.length} characters`
  for (const word of said.split(/\s+/)) {
    await pause(20, null, { signal })
    yield ` ${word.toUpperCase()}`
  }
}
