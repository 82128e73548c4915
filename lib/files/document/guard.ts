// Entry point of the process that reads one untrusted document, so that a crash, such as a failed large allocation, does not
// end ours. Its main thread only watches the reader. Arguments: path, kind, bytes of memory. Prints the text and exits with 0,
// or prints the reason of a failure.
import { writeSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { messageOf } from '../../base/errors.ts'
import type { ReaderAnswer } from './reader.ts'

const WATCH_MS = 20

const [path, kind, memoryBytes] = process.argv.slice(2)
const file = new URL(import.meta.url.endsWith('.ts') ? './reader.ts' : './reader.js', import.meta.url)
// Output of libraries must not get into the text.
let hasAnswered = false
const reader = new Worker(file, { workerData: { path, kind }, stdout: true, stderr: true })
reader.stdout.resume()
reader.stderr.resume()

reader.on('message', (answer: ReaderAnswer) => {
  hasAnswered = true
  if ('text' in answer) process.stdout.write(answer.text, () => process.exit(0))
  else end(answer.reason)
})
reader.on('error', (error) => end(messageOf(error)))
reader.on('exit', () => {
  if (!hasAnswered) end('')
})
setInterval(() => {
  if (process.memoryUsage.rss() > Number(memoryBytes)) end('it took too much memory')
}, WATCH_MS)
// The parent process is gone.
process.stdin
  .resume()
  .on('close', () => end(''))
  .on('error', () => end(''))

/** Ends the process at once: the reader may be in a loop that only a kill stops. */
function end(reason: string): void {
  try {
    writeSync(1, reason)
  } finally {
    process.kill(process.pid, 'SIGKILL')
  }
}
